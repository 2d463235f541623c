#!/bin/sh
# Makes IMAGES pictures of one piece of sky, sky-0000.pgm and so on, SIZE x SIZE pixels each, and prints the list that stack.sh wants: where in each
# of them the piece of CUT x CUT pixels is that all have. A star in the middle of that is fainter than the noise of a picture. All is drawn from the
# number of the picture.
#
#   sky.sh IMAGES SIZE CUT > sky.list && stack.sh sky.list CUT CUT > stack.flow && htc flow run stack.flow
set -eu
[ $# -ge 3 ] || { echo "usage: sky.sh IMAGES SIZE CUT" >&2; exit 1; }
images=$1 size=$2 cut=$3

# All numbers are whole and below 2^53: every awk draws the same.
LC_ALL=C awk -v images="$images" -v size="$size" -v cut="$cut" '
    function draw(n) {
        state = (state * 69069 + 1) % 4294967296
        return int(state * n / 4294967296)
    }
    BEGIN {
        for (image = 0; image < images; image++) {
            file = sprintf("sky-%04d.pgm", image)
            state = image + 1
            x = draw(size - cut + 1)
            y = draw(size - cut + 1)
            print file, x, y
            printf "P2\n# picture %d\n%d %d\n255\n", image, size, size > file
            for (j = 0; j < size; j++) {
                line = ""
                for (i = 0; i < size; i++)
                    line = line (100 + draw(64) + (i == x + int(cut / 2) && j == y + int(cut / 2) ? 40 : 0)) " "
                print line > file
            }
            close(file)
        }
    }'
