#!/bin/sh
# Tests rxe-run itself, in few boots. Prints a line a check and, last, "N passed, N failed".
# usage: selftest.sh [--kernel 6.1|6.12]
#
# shellcheck disable=SC2016,SC2089,SC2090  # the quotes are what is tested
# Run inside the guest, as "selftest.sh inside", it is the command that the first boot runs.

# until_true COMMAND...: waits, for half a minute at most, until it succeeds. A server listens when the kernel says so.
until_true() {
    for _ in $(seq 300); do
        "$@" && return
        sleep 0.1
    done
}

listens_cm() {
    rdma resource show cm_id | grep -q "LISTEN.*$1:7174"
}

listens_tcp() { # the port in hexadecimal
    cat /proc/net/tcp /proc/net/tcp6 | grep -q ":$1 [0-9A-F:]* 0A "
}

inside() {
    printf '%s\0' "$@" >"$RXE_OUTPUT/arguments"
    printf '%s' "$SELFTEST" >"$RXE_OUTPUT/environment"
    pwd >"$RXE_OUTPUT/folder"
    ls /sys/class/infiniband >"$RXE_OUTPUT/devices"
    # shellcheck disable=SC3045  # dash has it
    ulimit -l >"$RXE_OUTPUT/locked"
    touch /usr/selftest-was-here
    sleep 1000 &                        # left behind, with our stdout and stderr: must not keep the guest up

    cd "$RXE_OUTPUT" || exit
    rping -s -a "$RXE_ADDR" -C 3 >rping-server.log 2>&1 &
    until_true listens_cm "$RXE_ADDR"
    rping -c -a "$RXE_ADDR" -C 3 -v >rping.log 2>&1
    rping -s -a "$RXE_ADDR2" -C 3 >rping-server2.log 2>&1 &
    until_true listens_cm "$RXE_ADDR2"
    rping -c -a "$RXE_ADDR2" -C 3 -v >rping2.log 2>&1
    ibv_rc_pingpong -d rxe0 -g 1 -n 100 >pingpong-server.log 2>&1 &
    until_true listens_tcp 4853
    ibv_rc_pingpong -d rxe0 -g 1 -n 100 "$RXE_ADDR" >pingpong.log 2>&1

    echo 'this is stderr' >&2
    cat                                 # stdin to stdout, till its end
    kill -SEGV $$
}

if [ "$1" = inside ]; then
    shift
    inside "$@"
fi

here=$(cd "$(dirname "$0")" && pwd)
kernel=6.1
[ "$1" != --kernel ] || kernel=$2
scratch=$(mktemp -d "${TMPDIR:-/tmp}/rxe-run selftest.XXXXXX") || exit
trap 'rm -rf "$scratch"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
passed=0
failed=0

check() { # NAME COMMAND...: the command must succeed
    name=$1
    shift
    if "$@" >"$scratch/why" 2>&1; then
        passed=$((passed + 1))
        echo "pass  $name"
    else
        failed=$((failed + 1))
        echo "FAIL  $name: $*"
        sed 's/^/      /' "$scratch/why"
    fi
}

equal() { # GOT WANTED
    [ "$1" = "$2" ] || { printf 'got <%s>, wanted <%s>\n' "$1" "$2"; false; }
}

says() { # FILE TEXT
    grep -qF -e "$2" "$1" || { printf 'this does not say <%s>:\n' "$2"; cat "$1"; false; }
}

rxe_run() {
    "$here/rxe-run" --kernel "$kernel" "$@"
}

command_of() { # PROCESS: nothing if it is gone or a zombie
    tr '\0' ' ' 2>/dev/null <"/proc/${1:-none}/cmdline"
}

# Starts rxe-run in the background, SIGINT not ignored as a shell would have it. Sets $run, and $qemu, its child.
start() { # WAIT-FOR ARGUMENT...: waits till stdout has that text ("": only till qemu runs)
    text=$1
    shift
    : >"$scratch/out"
    env --default-signal=INT "$here/rxe-run" --kernel "$kernel" "$@" </dev/null >"$scratch/out" 2>"$scratch/err" &
    run=$!
    qemu=
    for _ in $(seq 600); do
        qemu=$(cat "/proc/$run/task/$run/children" 2>/dev/null)
        qemu=${qemu% }
        case $(command_of "$qemu") in
        qemu-system*) [ -n "$text" ] && ! grep -q "$text" "$scratch/out" || return 0 ;;
        esac
        sleep 0.1
    done
    echo "rxe-run did not start: $(cat "$scratch/err")"
}

finish() { # sets $status
    wait "$run" 2>/dev/null
    status=$?
}

gone() { # PROCESS, within a second or so
    for _ in 1 2 3 4 5 6 7 8 9 10; do
        [ -n "$(command_of "$1")" ] || return 0
        sleep 0.1
    done
    echo "process $1 is still there: $(command_of "$1")"
    return 1
}

# One boot for all that a command sees and does. By a link, from a folder with spaces, and it ends by a signal.
mkdir -p "$scratch/a folder, with spaces"
cd "$scratch/a folder, with spaces" || exit
ln -s "$here/rxe-run" "../a link"
head -c 20000000 /dev/urandom >"$scratch/random"
newline='
'
SELFTEST="spaces,  'quotes\", \$dollars \\ and${newline}newlines"
export SELFTEST
"../a link" --kernel "$kernel" --output 'out, put' -- "$here/selftest.sh" inside '' 'two words' "$SELFTEST" '*' \
    <"$scratch/random" >"$scratch/copy" 2>"$scratch/err"
status=$?
cd 'out, put' || exit
printf '%s\0' '' 'two words' "$SELFTEST" '*' >"$scratch/arguments"
check 'killed by SIGSEGV is status 139' equal "$status" 139
check '20 MB from stdin to stdout unchanged' cmp "$scratch/random" "$scratch/copy"
check 'stderr is apart' equal "$(cat "$scratch/err")" 'this is stderr'
check 'arguments' cmp arguments "$scratch/arguments"
check 'environment' equal "$(cat environment)" "$SELFTEST"
check 'working folder' equal "$(cat folder)" "${PWD%/*}"
check 'nothing else is changed here' test ! -e /usr/selftest-was-here
check 'locked memory is unlimited' equal "$(cat locked)" unlimited
check 'two devices' equal "$(cat devices)" "rxe0${newline}rxe1"
check 'rping to RXE_ADDR' says rping.log 'rdma-ping-2'
check 'rping to RXE_ADDR2' says rping2.log 'rdma-ping-2'
check 'ibv_rc_pingpong on rxe0' says pingpong.log '100 iters in'
cd "$here" || exit

rxe_run -- sh -c 'exit 3' <&- 2>"$scratch/err"
check 'exit status 3' equal "$? $(cat "$scratch/err")" '3 '
rxe_run --no-such-option 2>"$scratch/err"
check 'an unknown option is status 125' equal $? 125
check 'and said so' says "$scratch/err" 'rxe-run: option --no-such-option not recognized'
rxe_run -- no-such-command </dev/null 2>"$scratch/err"
check 'a command that is not there is status 127' equal $? 127
check 'and said so' says "$scratch/err" 'rxe-run: no-such-command: No such file'
rxe_run -- true </dev/null
check 'exit status 0' equal $? 0

# A panic, and what the command wrote before.
rxe_run --output "$scratch" -- sh -c 'echo written >"$RXE_OUTPUT/before"; echo c >/proc/sysrq-trigger; sleep 100' \
    </dev/null 2>"$scratch/err"
check 'a panic is status 126' equal $? 126
check 'and said so' says "$scratch/err" "the guest's kernel panicked (Kernel panic - not syncing: sysrq"
check 'and files written before are there' equal "$(cat "$scratch/before")" written

# Ends from outside: whatever happens, qemu goes.
start '' --timeout 3 -- sleep 100
finish
check 'time up is status 124' equal "$status" 124
check 'and said so' says "$scratch/err" 'the 3 s of --timeout are over and the guest was not up yet'
check 'and qemu is gone' gone "$qemu"
start up -- sh -c 'echo up; sleep 100'
kill -INT "$run"
finish
check 'SIGINT is status 130' equal "$status" 130
check 'and said so' equal "$(cat "$scratch/err")" 'rxe-run: ended by SIGINT'
check 'and qemu is gone' gone "$qemu"
start '' -- sleep 100
kill -TERM "$run"
finish
check 'SIGTERM is status 143' equal "$status" 143
check 'and qemu is gone' gone "$qemu"
start '' -- sleep 100
kill -KILL "$run"
finish
check 'rxe-run killed: qemu is gone' gone "$qemu"
start '' -- sleep 100
kill -KILL "$qemu"
finish
check 'qemu killed is status 125 during boot' equal "$status" 125

echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
