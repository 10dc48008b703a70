# mrguard. `make help` lists the targets.
#
# Variants are built side by side under build/: plain (gcc), debug (gcc, which also reports aliased borrows), san (clang
# with AddressSanitizer, UndefinedBehaviorSanitizer and LeakSanitizer) and, for one test each, tsan (clang with
# ThreadSanitizer) and fuzz (clang with libFuzzer). So both compilers see every file with the strict flags.

BUILD ?= build
# As the user wrote it, quotes and dollars and all: it goes to the demo through the environment.
override FILE := $(value FILE)
export FILE
# make V=1 shows the commands.
Q := $(if $(filter 1,$(V)),,@)
SAY := @$(if $(filter 1,$(V)),:,echo)
MAKEFLAGS += --no-builtin-rules
.DELETE_ON_ERROR:

WARNINGS := -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror
FLAGS := -std=c11 -D_GNU_SOURCE $(WARNINGS) -Iinclude -g -fPIC -fvisibility=hidden -pthread $(CFLAGS)
LIBS := -lrdmacm -libverbs

CC_plain ?= gcc
# Calls of libc and libibverbs go through the GOT at once: two instructions less for each.
FLAGS_plain := -O2 -fno-plt -D_FORTIFY_SOURCE=2
# The debug build: the same API and SONAME, so a program need not be built anew for it.
CC_debug ?= gcc
FLAGS_debug := -Og -fno-omit-frame-pointer -DMRG_DEBUG -D_FORTIFY_SOURCE=2
CC_san ?= clang
FLAGS_san := -O1 -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=undefined
CC_tsan ?= clang
FLAGS_tsan := -O1 -fsanitize=thread
# For the fuzz target alone, which libFuzzer is linked into.
CC_fuzz ?= clang
FLAGS_fuzz := -O1 -fno-omit-frame-pointer -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=undefined \
  -fno-sanitize-coverage=trace-cmp

SOURCES := $(wildcard src/*.c)
UNIT := $(wildcard tests/unit/*.c) $(wildcard tests/stub/*.c)
RXE := $(filter-out tests/rxe/bench_reg.c,$(wildcard tests/rxe/*.c))
EXAMPLES := $(patsubst examples/%.c,%,$(wildcard examples/*.c))
HEADERS := $(wildcard include/mrguard/*.h)
STRESS := tests/stress/stress.c tests/stub/stub.c
# The failure walk. The linker sends mrguard's allocations to it, and nobody else's.
WALK := $(wildcard tests/walk/*.c) tests/rxe/held.c tests/stub/inject.c
WALK_WRAPS := $(foreach f,malloc calloc realloc aligned_alloc mmap mprotect madvise,-Wl,--wrap=$f)
FUZZ := $(wildcard tests/fuzz/*.c) tests/stub/stub.c tests/stub/inject.c
VARIANTS := plain debug san tsan fuzz

FUZZ_SECONDS ?= 3600
export FUZZ_SECONDS

.PHONY: all packages have check check-long model demo bench bench-quick bench-rxe unit rxe walk fuzz fuzz-long format clean help
all: $(BUILD)/plain/libmrguard.so $(BUILD)/plain/libmrguard.a $(BUILD)/debug/libmrguard.so $(EXAMPLES:%=$(BUILD)/plain/%) ## build the library, its debug build and the examples
	@:

# One variant: its library, its tests, its examples.
define variant
$(BUILD)/$1/obj/%.o: %.c
	@mkdir -p $$(@D)
	$(SAY) '  CC    $$@'
	$(Q)$(CC_$1) $(FLAGS) $(FLAGS_$1) -Isrc -Itests -Itests/stub -Itests/rxe -MMD -MP -c $$< -o $$@

$(BUILD)/$1/libmrguard.a: $(SOURCES:%.c=$(BUILD)/$1/obj/%.o)
	@rm -f $$@
	$(SAY) '  AR    $$@'
	$(Q)ar rcs $$@ $$^

$(BUILD)/$1/libmrguard.so.0: $(SOURCES:%.c=$(BUILD)/$1/obj/%.o) src/mrguard.map
	$(SAY) '  LINK  $$@'
	$(Q)$(CC_$1) $(FLAGS_$1) -shared -Wl,-soname,libmrguard.so.0 -Wl,--version-script=src/mrguard.map \
	  -Wl,-z,nodelete -Wl,-z,relro -Wl,-z,now $(SOURCES:%.c=$(BUILD)/$1/obj/%.o) $(LIBS) -o $$@

$(BUILD)/$1/libmrguard.so: $(BUILD)/$1/libmrguard.so.0
	$(Q)ln -sf libmrguard.so.0 $$@

$(BUILD)/$1/unit: $(UNIT:%.c=$(BUILD)/$1/obj/%.o) $(BUILD)/$1/libmrguard.a
	$(SAY) '  LINK  $$@'
	$(Q)$(CC_$1) $(FLAGS_$1) $$^ $(LIBS) -lcriterion -o $$@

$(BUILD)/$1/rxe: $(RXE:%.c=$(BUILD)/$1/obj/%.o) $(BUILD)/$1/libmrguard.a
	$(SAY) '  LINK  $$@'
	$(Q)$(CC_$1) $(FLAGS_$1) $$^ $(LIBS) -lcriterion -o $$@

$(BUILD)/$1/stress: $(STRESS:%.c=$(BUILD)/$1/obj/%.o) $(BUILD)/$1/libmrguard.a
	$(SAY) '  LINK  $$@'
	$(Q)$(CC_$1) $(FLAGS_$1) $$^ $(LIBS) -o $$@

$(BUILD)/$1/walk: $(WALK:%.c=$(BUILD)/$1/obj/%.o) $(BUILD)/$1/libmrguard.a
	$(SAY) '  LINK  $$@'
	$(Q)$(CC_$1) $(FLAGS_$1) $(WALK_WRAPS) $$^ $(LIBS) -o $$@

$(BUILD)/$1/fuzz: $(FUZZ:%.c=$(BUILD)/$1/obj/%.o) $(BUILD)/$1/libmrguard.a
	$(SAY) '  LINK  $$@'
	$(Q)$(CC_$1) $(subst fuzzer-no-link,fuzzer,$(FLAGS_$1)) -Wl,--wrap=dladdr $$^ $(LIBS) -o $$@

$(BUILD)/$1/bench_reg: $(BUILD)/$1/obj/tests/rxe/bench_reg.o $(BUILD)/$1/libmrguard.a
	$(SAY) '  LINK  $$@'
	$(Q)$(CC_$1) $(FLAGS_$1) $$^ $(LIBS) -o $$@

$(EXAMPLES:%=$(BUILD)/$1/%): $(BUILD)/$1/%: $(BUILD)/$1/obj/examples/%.o $(BUILD)/$1/libmrguard.so
	$(SAY) '  LINK  $$@'
	$(Q)$(CC_$1) $(FLAGS_$1) $$< -L$(BUILD)/$1 -lmrguard $(LIBS) -Wl,-rpath,'$$$$ORIGIN' -o $$@

-include $(patsubst %.c,$(BUILD)/$1/obj/%.d,$(SOURCES) $(UNIT) $(RXE) $(STRESS) $(WALK) $(FUZZ) tests/rxe/bench_reg.c $(EXAMPLES:%=examples/%.c))
endef
$(foreach v,$(VARIANTS),$(eval $(call variant,$v)))
# What the fuzzer is to reach is the library.
$(BUILD)/fuzz/obj/tests/%.o: FLAGS_fuzz += -fno-sanitize=fuzzer-no-link
.SECONDARY:

# `make PACKAGES=have ...` skips this where the machine has its packages otherwise.
packages: ## install the missing ones of .ci/packages.txt (root, Debian 12)
ifneq ($(PACKAGES),have)
	@.ci/install-packages
endif

BUILT := $(foreach v,plain san,$(BUILD)/$v/libmrguard.so $(BUILD)/$v/unit $(BUILD)/$v/rxe $(BUILD)/$v/walk $(EXAMPLES:%=$(BUILD)/$v/%))

have: $(BUILT) $(BUILD)/bench/bench $(BUILD)/bench/posts $(BUILD)/plain/bench_reg $(BUILD)/tsan/stress \
  $(BUILD)/debug/libmrguard.so $(BUILD)/debug/unit $(BUILD)/fuzz/fuzz
	@:

check: packages ## build and run everything: the tests' last line is "N passed, N failed" (16 min)
	@$(MAKE) --no-print-directory -j2 have
	@BUILD=$(BUILD) tests/check

unit: packages ## the unit tests alone, native, plain (10 s)
	@$(MAKE) -s --no-print-directory -j2 $(BUILD)/plain/unit
	$(BUILD)/plain/unit

rxe: packages ## the tests over soft-RoCE alone, plain (1 min)
	@$(MAKE) -s --no-print-directory -j2 $(BUILD)/plain/rxe
	tests/guest/rxe-run -- $(BUILD)/plain/rxe --filter '!(removal)/*'

walk: packages ## every call below us fails once, over soft-RoCE: 800 lives and more (1 min)
	@$(MAKE) -s --no-print-directory -j2 $(BUILD)/plain/walk
	tests/guest/rxe-run --timeout 900 -- $(BUILD)/plain/walk

fuzz: packages ## 10 million operations against a reference model (100 s)
	@$(MAKE) -s --no-print-directory -j2 $(BUILD)/fuzz/fuzz
	@BUILD=$(BUILD) tests/fuzz/run

fuzz-long: packages ## likewise from a random seed; FUZZ_SECONDS=3600 (1 h)
	@$(MAKE) -s --no-print-directory -j2 $(BUILD)/fuzz/fuzz
	@BUILD=$(BUILD) tests/fuzz/run long

bench: bench-quick ## likewise, with a plot of posts in build/bench/posts.svg, then over soft-RoCE (2 min)
	@BUILD=$(BUILD) tests/bench/plot
	@$(MAKE) --no-print-directory bench-rxe

bench-rxe: packages ## the cost of a registration over soft-RoCE, by size, raw beside mrguard (50 s)
	@$(MAKE) --no-print-directory -j2 $(BUILD)/plain/bench_reg
	@tests/guest/rxe-run -- sh -c '$(BUILD)/plain/bench_reg "$$RXE_ADDR"'

model: packages ## check the models of the protocol, and that their mutants are refuted: 9 million states (2 min)
	@BUILD=$(BUILD) tests/model/run

check-long: packages ## the full model: 61 million states (6 min, 3 GB)
	@BUILD=$(BUILD) tests/model/run --long

demo: packages ## serve a file by RDMA READ, then show what is refused; FILE=... (1 min)
	@$(MAKE) --no-print-directory -j2 all
	@BUILD=$(BUILD) examples/demo

bench-quick: packages ## instructions and bytes of mrguard beside raw verbs, into build/bench/results.json (10 s)
	@$(MAKE) --no-print-directory -j2 $(BUILD)/bench/bench $(BUILD)/bench/posts
	@BUILD=$(BUILD) tests/bench/run

$(BUILD)/bench/bench $(BUILD)/bench/posts: $(BUILD)/bench/%: tests/bench/%.c $(BUILD)/plain/obj/tests/stub/stub.o $(BUILD)/plain/libmrguard.a
	@mkdir -p $(@D)
	$(SAY) '  LINK  $@'
	$(Q)$(CC_plain) $(FLAGS) $(FLAGS_plain) -Isrc -Itests/stub $^ $(LIBS) -o $@

format: ## format every C file in place (clang-format 14)
	clang-format -i $(SOURCES) $(HEADERS) $(wildcard src/*.h tests/*.h tests/*/*.[ch] examples/*.[ch])

clean: ## remove what was built; the guest's kernel stays
	rm -rf $(VARIANTS:%=$(BUILD)/%) $(BUILD)/bench $(BUILD)/model $(BUILD)/test

help: ## list the targets and what they cost
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(firstword $(MAKEFILE_LIST)) | expand -t 14
