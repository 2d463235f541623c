#!/bin/bash
# usage: pure.sh ARCHIVE...
# The layers below lib/net decide and do nothing else: their objects call no socket, clock, file, process, thread or source
# of randomness. Those of lib/sched take no memory but through the env either. Looks at what they leave undefined, and
# first proves that it would see a call that is not allowed.
set -euo pipefail

# Names as extended regular expressions, each matching a whole symbol. Fortified names (__read_chk) count as the plain one.
forbidden() {
    cat <<'LIST'
# sockets
socket|socketpair|bind|listen|accept4?|connect|shutdown|(get|set)sockopt|getsockname|getpeername
send(to|msg|mmsg|file)?|recv(from|msg|mmsg)?|(get|free)addrinfo|gethostby.*|getnameinfo|gethostname|uname
# clocks and waiting
time|gettimeofday|clock|clock_.*|times|ftime|timespec_get|localtime(_r)?|mktime|tzset|strptime
sleep|usleep|nanosleep|alarm|[gs]etitimer|timer_.*|timerfd_.*|p?select|p?poll|epoll_.*|eventfd
# randomness
s?rand(_r)?|s?random(_r)?|[dejlmn]rand48(_r)?|s?rand48.*|getrandom|getentropy|arc4random.*|randombytes.*|crypto_.*keygen|.*_random
# processes, signals, users
v?fork|clone|exec(v|l|ve|vp|vpe|le|lp|veat)|fexecve|posix_spawn.*|system|popen|pclose|wait(pid|id|[34])?|prctl|syscall
kill|killpg|tgkill|raise|signal|sig(action|procmask|wait.*|queue|suspend)|pidfd_.*|setsid|setpgid|[gs]etrlimit|getrusage
getpid|getppid|gettid|get[ref]?[eu]*[ug]id|set[re]*[ug]id|getpw.*|getgr.*|getlogin.*|sched_.*|nice|daemon
exit|_exit|_Exit|quick_exit|atexit|abort
# threads
pthread_.*|thrd_.*|mtx_.*|cnd_.*|tss_.*|call_once|sem_.*
# files
open(at)?(64)?|creat(64)?|close|read|write|p?(read|write)v?(64)?(v2)?|readv|writev|lseek(64)?|dup[23]?|pipe2?|fcntl(64)?|ioctl|flock|lockf
[lf]?stat(64|at|x|fs|vfs)?(64)?|__.?xstat(64)?|access|faccessat|unlink(at)?|rename(at2?)?|mkdir(at)?|rmdir|link(at)?|symlink(at)?|readlink(at)?
chmod|fchmod(at)?|f?l?chown(at)?|utime.*|futimens|umask|truncate(64)?|ftruncate(64)?|f(data)?sync|sync|syncfs|fallocate.*|posix_fallocate
f?chdir|getcwd|realpath|(fd)?opendir|readdir(64)?(_r)?|closedir|scandir|glob|ftw|nftw|mkstemp.*|mkdtemp|tmpfile.*|mmap(64)?|munmap|msync|shm_.*|memfd_create|inotify.*
f?open64|fd?open|freopen|fclose|fflush|fread|fwrite|fgets|fputs|fputc|fgetc|getline|getdelim|fseek.*|ftell.*|v?f?scanf|__isoc99_v?f?scanf|setv?buf
v?f?printf|v?dprintf|puts|putchar|_?IO_putc|getchar|perror|std(in|out|err)|v?syslog|openlog|remove
getenv|secure_getenv|setenv|putenv|environ|__environ|setlocale|dl(open|sym)
# libraries that do such things themselves
(event|evbuffer|bufferevent|evutil|evconnlistener)_.*|mdb_.*|crypto_pwhash.*|crypto_box_keypair|ini_parse(_file)?
xml(ReadFile|ReadFd|ReadIO|ParseFile|ParseEntity|SchemaNewParserCtxt|SaveF.*|Nano.*|SAXParseFile|NewTextReaderFilename)
json_(load|dump)(f|fd|_file)
LIST
}

# What takes memory by itself; the C library's qsort does.
allocating='(m|c|re|aligned_)alloc|free|reallocarray|posix_memalign|qsort(_r)?|strn?dup|v?asprintf|open_memstream'

# Undefined names of the archives that match, one a line: "object name".
undefined() {
    local pattern=$1
    shift
    nm -A -u "$@" | sed -E 's/: +[A-Za-z] ([^ @]+).*$/: \1/; s/ __([a-z]+)_chk$/ \1/' | grep -E " ($pattern)$" || true
}

offences() {
    local archive
    undefined "$(forbidden | grep -v '^#' | paste -sd'|')" "$@"
    for archive in "$@"; do
        [[ $archive != *htc_sched.a ]] || undefined "$allocating" "$archive"
    done
}

self_test() {
    local dir=$1
    printf '%s\n' '#include <stdio.h>' '#include <stdlib.h>' '#include <time.h>' \
        'long planted(void); long planted(void) { puts(getenv("HOME")); return (long)time(NULL) + (long)malloc(4); }' > "$dir/planted.c"
    $CC -O2 -c -o "$dir/planted.o" "$dir/planted.c"
    printf '%s\n' '#include <string.h>' \
        'unsigned long innocent(const char *); unsigned long innocent(const char *s) { return strlen(s); }' > "$dir/innocent.c"
    $CC -O2 -c -o "$dir/innocent.o" "$dir/innocent.c"
    ar rc "$dir/planted.a" "$dir/planted.o" "$dir/innocent.o"
    local found
    found=$(offences "$dir/planted.a")
    for name in puts getenv time; do
        grep -q "planted.o: *$name$" <<<"$found" || { echo "the planted call of $name was not seen in: $found"; exit 1; }
    done
    ! grep -q malloc <<<"$found" || { echo "memory is not for lib/sched alone to take: $found"; exit 1; }
    cp "$dir/planted.a" "$dir/libhtc_sched.a"
    offences "$dir/libhtc_sched.a" | grep "planted.o: *malloc$" > /dev/null || { echo "the planted call of malloc was not seen"; exit 1; }
    ! grep -q innocent <<<"$found" || { echo "an innocent object was accused: $found"; exit 1; }
}

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
self_test "$dir"
found=$(offences "$@")
if [ -n "$found" ]; then
    echo "calls that reach outside from below lib/net:"
    echo "$found"
    exit 1
fi
echo "$# layers reach nothing outside"
