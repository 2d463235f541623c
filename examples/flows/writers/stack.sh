#!/bin/sh
# Writes a flow that stacks images: what is faint in one of them stands out in the mean of many. LIST has a line for each image, FILE X Y: from FILE,
# a graymap as plain text (P2), WIDTH x HEIGHT pixels are cut out whose upper left one is at X, Y. stack.pgm is the mean of all cuts, each pixel
# rounded to the nearest whole number. One task adds up GROUP cuts.
#
#   stack.sh LIST WIDTH HEIGHT [GROUP] > stack.flow && htc flow run stack.flow
set -eu
. "$(dirname "$0")/names.sh"
[ $# -ge 3 ] || { echo "usage: stack.sh LIST WIDTH HEIGHT [GROUP]" >&2; exit 1; }
list=$1 width=$2 height=$3 group=${4:-8}

cut='
    { sub(/#.*/, ""); for (i = 1; i <= NF; i++) t[n++] = $i }
    END {
        if (t[0] != "P2" || n < 4 + t[1] * t[2] || x + w > t[1] || y + h > t[2])
            exit 1
        for (j = y; j < y + h; j++)
            for (i = x; i < x + w; i++)
                print t[4 + j * t[1] + i] > out
    }'
add='
    { s[FNR] += $1 }
    END { for (i = 1; i <= FNR; i++) print s[i] > out }'
mean='
    { s[FNR] += $1 }
    END {
        out = "stack.pgm"
        for (i = 1; i <= w * h; i++) {
            s[i] = int((2 * s[i] + images) / (2 * images))
            if (s[i] > top)
                top = s[i]
        }
        printf "P2\n%d %d\n%d\n", w, h, top > out
        for (i = 1; i <= w * h; i++)
            print s[i] > out
    }'

images=0
while read -r file x y; do
    n=$(printf %04d $images)
    say "cut-$n: in=$(quote "$file") out=stack-cut.$n awk -v x=$x -v y=$y -v w=$width -v h=$height -v out=stack-cut.$n '$cut' $(quote "$file")"
    images=$((images + 1))
done < "$list"
groups=$(((images + group - 1) / group))
for g in $(seq 0 $((groups - 1))); do
    first=$((g * group)) last=$((g * group + group - 1))
    [ $last -lt "$images" ] || last=$((images - 1))
    in=$(range stack-cut.%04.0f $first $last)
    say "add-$g: after=$(range cut-%04.0f $first $last) in=$in out=stack-sum.$g awk -v out=stack-sum.$g '$add' $(words "$in")"
done
in=$(range stack-sum.%.0f 0 $((groups - 1)))
say "mean: after=$(range add-%.0f 0 $((groups - 1))) in=$in out=stack.pgm awk -v w=$width -v h=$height -v images=$images '$mean' $(words "$in")"
