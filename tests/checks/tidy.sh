#!/bin/bash
# usage: SOURCE=DIR tidy.sh
# House rules that a machine can see: nothing left for later, no endless files, includes that point only downwards.
set -euo pipefail
cd "$SOURCE"

lines_max=900
failed=0
complain() {
    if [ -n "$2" ]; then
        echo "$1:"
        echo "$2"
        failed=1
    fi
}

sources() {
    find include lib examples tests fuzz doc \( -name '*.[ch]' -o -name '*.cpp' -o -name '*.sh' -o -name '*.py' -o \
        -name meson.build \) -type f -print0
}

# Written so that this file does not find itself.
complain "left for later" "$(sources | xargs -0 grep -nwE 'TO''DO|FIX''ME|X''XX' || true)"
complain "longer than $lines_max lines, and no reason in tests/checks/long_files.txt (or a reason, and not that long)" \
    "$({ grep -v '^#' tests/checks/long_files.txt; sources | xargs -0 wc -l; } | awk -v max=$lines_max '
        /^[^ ]*: / { name = $1; sub(":$", "", name); reason[name] = 1; next }
        $2 == "total" { next }
        $1 > max && !reason[$2] || $1 <= max && reason[$2] { print $2 ": " $1 }
        { seen[$2] = 1 }
        END { for (name in reason) if (!(name in seen)) print name " is not there" }')"
complain "blanks at the end of a line" "$(sources | xargs -0 grep -nE '[ 	]+$' || true)"

complain "lines of CHANGELOG.md longer than 140 characters" "$(LC_ALL=C.UTF-8 grep -nE '^.{141,}' CHANGELOG.md || true)"

# With pipefail, a reader that leaves early makes what writes to it fail by SIGPIPE: whether it does depends on who is first.
complain "a pipe into grep -q (say: | grep WORDS > /dev/null)" \
    "$(sources | xargs -0 grep -nE '(^|[^|])[|] *grep -[a-zA-Z]*q' check quickstart || true)"

# Links of the documents to files beside them.
dead_links() {
    local page target
    while IFS=: read -r page target; do
        target=${target#*](}
        [ -e "$(dirname "$page")/$target" ] || echo "$page: $target"
    done < <(grep -oE '\]\([^)#: ]+' ./*.md $(find doc -name '*.md') /dev/null || true)
}
complain "links that lead nowhere" "$(dead_links)"

# Criterion's own macros take longer to read than all the rest of a test to compile.
complain "tests that do not say by tests/unit/expect.h what has to hold" \
    "$(grep -rn '#include <criterion/' tests --include='*.[ch]' | grep -vE '^tests/unit/(expect\.h|test_expect\.c):' || true)"

# Headers of the outside world, below lib/net. (Not signal.h: its numbers say how a task ended; pure.sh sees its calls.)
outside='sys/.*|unistd|fcntl|time|pthread|threads|netinet/.*|arpa/.*|netdb|poll|dirent|spawn|event2/.*|lmdb|ini|pwd|grp|syslog|locale|semaphore|dlfcn'
complain "headers of the outside world below lib/net" \
    "$(grep -rnE "#include <($outside)\.h>" lib/core lib/sched lib/channel lib/kvs lib/work lib/roles lib/sim include || true)"

# Which folders a folder may include from: folders.txt.
included() {
    grep -rnoE '#include "[^"]+"' lib --include='*.[ch]' | sed -E 's/^([^:]+):[0-9]+:#include "([^"]+)"/\1 \2/'
}
complain "a folder includes from one that tests/checks/folders.txt does not let it" "$(included | awk '
    function covers(list, folder,  name, n, i) {
        n = split(list, name, " ")
        for (i = 1; i <= n; i++)
            if (folder == name[i] || index(folder, name[i] "/") == 1)
                return 1
        return 0
    }
    function folder_of(path) { sub("/?[^/]*$", "", path); return path }
    FNR == NR {
        if ($0 ~ /^#/ || $0 == "") next
        if ($2 == "->") { where = $3; sub(":$", "", where); excepted[$1] = excepted[$1] " " where; next }
        name = $1; sub(":$", "", name); sub("^[^:]*: *", ""); may[name] = $0; has[name] = 1; next
    }
    {
        own = folder_of($1); sub("^lib/", "", own); from = folder_of($2)
        seen[own] = 1
        if (!(own in has)) { if (!told[own]++) print "lib/" own " has no line"; next }
        if (from == "" || from == own || from == "htcsched" || covers(may[own], from)) next
        for (part in excepted)
            if (covers(part, $1) && covers(excepted[part], from)) { used[part] = 1; next }
        print $1 " includes " $2
    }
    END {
        for (part in excepted) if (!(part in used)) print part " needs no exception"
        for (name in has) if (!(name in seen)) print "there is no folder lib/" name
    }' tests/checks/folders.txt -)"
complain "a public header that needs a private one" \
    "$(grep -rnE '#include "' include | grep -vE '#include "htcsched/' || true)"
complain "an example that looks inside the layers" \
    "$(grep -rnE '#include "(core|sched|channel|kvs|work|roles|net|sim)/' examples || true)"
complain "what runs live asks for the simulator" \
    "$(grep -rnE '#include [<"](htcsched/)?sim[._]' examples lib --include='*.[ch]' | grep -vE '^(lib/sim|examples/htc-sim|examples/embed)/' || true)"
exit $failed
