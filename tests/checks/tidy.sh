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
complain "longer than $lines_max lines" "$(sources | xargs -0 wc -l | awk -v max=$lines_max '$1 > max && $2 != "total"')"
complain "blanks at the end of a line" "$(sources | xargs -0 grep -nE '[ 	]+$' || true)"

# Criterion's own macros take longer to read than all the rest of a test to compile.
complain "tests that do not say by tests/unit/expect.h what has to hold" \
    "$(grep -rn '#include <criterion/' tests --include='*.[ch]' | grep -vE '^tests/unit/(expect\.h|test_expect\.c):' || true)"

# Headers of the outside world, below lib/net. (Not signal.h: its numbers say how a task ended; pure.sh sees its calls.)
outside='sys/.*|unistd|fcntl|time|pthread|threads|netinet/.*|arpa/.*|netdb|poll|dirent|spawn|event2/.*|lmdb|ini|pwd|grp|syslog|locale|semaphore|dlfcn'
complain "headers of the outside world below lib/net" \
    "$(grep -rnE "#include <($outside)\.h>" lib/core lib/sched lib/channel lib/kvs lib/work lib/roles lib/sim include || true)"

# Which layers a layer may include from; its own files also without their directory.
may_include() {
    local layer=$1 allowed=$2
    local all='core|sched|channel|kvs|work|roles|net|sim|examples'
    complain "lib/$layer includes from a layer it may not use" \
        "$(grep -rnE "#include \"($all)/" "lib/$layer" | grep -vE "#include \"($allowed)/" || true)"
}
may_include core 'core'
may_include sched 'core|sched'
may_include channel 'core|channel'
may_include kvs 'core|kvs'
may_include work 'core|work'
may_include roles 'core|sched|kvs|work|roles'
may_include sim 'core|kvs|sim'
may_include net 'core|sched|channel|kvs|work|roles|net'
complain "a public header that needs a private one" \
    "$(grep -rnE '#include "' include | grep -vE '#include "htcsched/' || true)"
complain "an example that looks inside the layers" \
    "$(grep -rnE '#include "(core|sched|channel|kvs|work|roles|net|sim)/' examples || true)"
complain "what runs live asks for the simulator" \
    "$(grep -rnE '#include [<"](htcsched/)?sim[._]' examples lib --include='*.[ch]' | grep -vE '^(lib/sim|examples/htc-sim)/' || true)"
exit $failed
