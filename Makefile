# Lamina. `make help` lists the targets.
#
# Sources are found by folder: a new .c file needs no line here. Layers: core (engine: libc and libm),
# core/import (foreign files: jansson), api (jansson), server (libuv, libmicrohttpd).
# VARIANT names the build folder and its flags: release (build/), debug, asan, tsan, fuzz, cover (build/NAME);
# and simde: AVX-512 kernels emulated in AVX2, for build/simde/tests/check_kernels (needs libsimde-dev).
# Another compiler builds in a folder of its own: make CC=clang-14, make CC=aarch64-linux-gnu-gcc core.

VARIANT ?= release
ifeq ($(origin CC),default)
CC := $(if $(filter fuzz,$(VARIANT)),clang-14,gcc)
endif
AR := $(if $(findstring -gnu-gcc,$(CC)),$(CC:gcc=ar),ar)
ARCH := $(firstword $(subst -, ,$(shell $(CC) -dumpmachine 2>/dev/null || uname -m)))
FLAVOUR := $(filter-out release gcc,$(VARIANT) $(if $(filter fuzz,$(VARIANT)),,$(notdir $(CC))))
EMPTY :=
BUILD := build$(subst $(EMPTY) ,,$(addprefix /,$(FLAVOUR)))

# ---- Flags -----------------------------------------------------------------------------------------

LANG_C := -std=c11 -D_GNU_SOURCE -I.
WARN := -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wdouble-promotion -Wswitch-enum \
        -Wmissing-prototypes -Wstrict-prototypes -Wvla -Walloca -Wundef -Wformat=2 -Wno-overlength-strings -Werror \
        $(if $(findstring clang,$(CC)),-Wno-string-conversion)
MATH := -fno-math-errno -fno-trapping-math -ffp-contract=off
HARD := -fPIE -fvisibility=hidden -fstack-protector-strong -fstack-clash-protection \
        $(if $(filter x86_64,$(ARCH)),-fcf-protection)
LINK := -pie -Wl,-z,relro,-z,now,-z,noexecstack,--as-needed

SANITIZE_asan := -fsanitize=address,undefined -fno-sanitize-recover=all
SANITIZE_tsan := -fsanitize=thread
SANITIZE_fuzz := -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all
SANITIZE_cover := --coverage
SANITIZE := $(SANITIZE_$(VARIANT))
OPT_release := -O2 -g -fno-omit-frame-pointer -D_FORTIFY_SOURCE=3
OPT_debug := -Og -g -DLAM_DEBUG
OPT_cover := -Og -g
OPT_simde := -O2 -g -DLAM_EMULATE_AVX512
OPT := $(or $(OPT_$(VARIANT)),-O1 -g -fno-omit-frame-pointer)

# Kernels are compiled for the instruction set that the file name ends in.
ISA_avx2 := -mavx2 -mfma -mf16c
ISA_avx512 := -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx2 -mfma -mf16c
ifeq ($(VARIANT),simde)
ISA_avx512 := $(ISA_avx2) -isystem tests/kernels/simde -Wno-psabi
endif
isa = $(ISA_$(lastword $(subst _, ,$(basename $(notdir $1)))))
kernel_opt = $(if $(filter release,$(VARIANT)),$(if $(filter core/kernels/%,$1),-O3))

CFLAGS_ALL = $(LANG_C) $(WARN) $(MATH) $(HARD) $(OPT) $(SANITIZE) $(CFLAGS)
COMPILE = $(CC) $(CFLAGS_ALL) $(call kernel_opt,$<) $(call isa,$<) -MMD -MP -c $< -o $@
LINK_TO = $(CC) $(LINK) $(SANITIZE) $(LDFLAGS) -o $@ $(filter %.o %.a,$^)

# Short lines; whole commands with V=1.
say = $(if $(V),,@printf '  %-4s %s\n' $1 $(or $2,$@);)

# ---- Sources ---------------------------------------------------------------------------------------

find_c = $(sort $(shell find $1 -name '*.c' 2>/dev/null))
CORE_SRC := $(filter-out core/import/%,$(call find_c,core))
ifneq ($(ARCH),x86_64)
CORE_SRC := $(filter-out %_avx2.c %_avx512.c,$(CORE_SRC))
endif
SRC_core := $(CORE_SRC)
SRC_import := $(call find_c,core/import)
SRC_api := $(call find_c,api)
SRC_server := $(filter-out server/main.c,$(call find_c,server))
TEST_SRC := $(call find_c,tests)
HEADERS := $(sort $(shell find core api server tests -name '*.h' 2>/dev/null))
SOURCES := $(SRC_core) $(SRC_import) $(SRC_api) server/main.c $(SRC_server) $(TEST_SRC)

obj = $(patsubst %.c,$(BUILD)/obj/%.o,$1)
lib = $(patsubst %,$(BUILD)/lib%.a,$1)
# What a layer may link: itself and those below it.
LIBS_core := $(call lib,core)
LIBS_import := $(call lib,import core)
LIBS_api := $(call lib,api import core)
LIBS_server := $(call lib,server api import core)
SYS_core := -lm
SYS_import := -ljansson -lm
SYS_api := $(SYS_import)
SYS_server := -lmicrohttpd -luv -ljansson -lpthread -lm

# ---- Programs --------------------------------------------------------------------------------------

.PHONY: all
all: $(BUILD)/lamina ## build build/lamina (the default)

.SECONDEXPANSION:
.SECONDARY: # objects are kept
.DELETE_ON_ERROR:

$(BUILD)/lamina: $(call obj,server/main.c) $(LIBS_server)
	$(call say,LINK)$(LINK_TO) $(SYS_server)

$(BUILD)/lib%.a: $$(call obj,$$(SRC_$$*)) | $(BUILD)/flags
	@rm -f $@
	$(call say,AR)$(AR) rcs $@ $^

$(BUILD)/obj/%.o: %.c $(BUILD)/flags | deps
	@mkdir -p $(@D)
	$(call say,CC,$<)$(COMPILE)

# Rewritten only when compiler or flags change, so that objects follow them.
$(BUILD)/flags: FORCE
	@mkdir -p $(@D)
	@echo '$(CC) $(CFLAGS_ALL) $(ISA_avx2) $(ISA_avx512)' | cmp -s - $@ || echo '$(CC) $(CFLAGS_ALL) $(ISA_avx2) $(ISA_avx512)' > $@

# Unit tests: one Criterion program per layer, linked with that layer and those below it only.
UNITS := $(foreach l,core import api server,$(if $(wildcard tests/unit/$l/*.c),$(BUILD)/tests/unit-$l))
$(BUILD)/tests/unit-%: $$(call obj,$$(call find_c,tests/unit/$$*)) $$(LIBS_$$*)
	@mkdir -p $(@D)
	$(call say,LINK)$(LINK_TO) -lcriterion $(SYS_$*)

# Plain programs: tests/<kind>/check_<name>.c -> build/tests/check_<name>, with the kind's other sources.
program_src = $(wildcard tests/*/$1.c)
helper_src = $(filter-out $(dir $1)check_%.c $(dir $1)fuzz_%.c $(dir $1)replay.c,$(wildcard $(dir $1)*.c))
CHECKS := $(patsubst %.c,$(BUILD)/tests/%,$(notdir $(wildcard tests/*/check_*.c)))
LINK_check_torture := -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc
$(BUILD)/tests/check_%: $$(call obj,$$(call program_src,check_$$*) $$(call helper_src,$$(call program_src,check_$$*))) $(LIBS_server)
	@mkdir -p $(@D)
	$(call say,LINK)$(LINK_TO) $(LINK_check_$*) $(SYS_server)

# Fuzz targets: tests/fuzz/fuzz_<name>.c. Every variant links them with a main that replays files;
# VARIANT=fuzz links libFuzzer in its stead.
FUZZERS := $(patsubst tests/fuzz/%.c,$(BUILD)/tests/%,$(wildcard tests/fuzz/fuzz_*.c))
FUZZ_MAIN := $(if $(filter fuzz,$(VARIANT)),,$(call obj,tests/fuzz/replay.c))
$(BUILD)/tests/fuzz_%: $$(call obj,tests/fuzz/fuzz_$$*.c) $(FUZZ_MAIN) $(LIBS_server)
	@mkdir -p $(@D)
	$(call say,LINK)$(LINK_TO) $(if $(FUZZ_MAIN),,-fsanitize=fuzzer) $(SYS_server)

.PHONY: core units checks fuzzers tests debug asan tsan
core: $(LIBS_core) ## build the engine alone (libcore.a), for instance for aarch64
units: $(UNITS)
checks: $(CHECKS)
fuzzers: $(FUZZERS)
tests: all units checks fuzzers ## build everything that `make test` runs
debug asan tsan: ## build build/debug, build/asan, build/tsan
	@$(MAKE) --no-print-directory VARIANT=$@ all

# ---- Use -------------------------------------------------------------------------------------------

MODEL ?= models/all-MiniLM-L6-v2
PORT ?= 8080
export MODEL PORT

.PHONY: deps model run image
deps: # installs the Debian packages that are missing; says nothing when none is
	@tools/deps build
model: ## fetch the default model to models/all-MiniLM-L6-v2
	@tools/deps run
	@tools/fetch-model
run: all ## build, fetch the default model, serve it on 127.0.0.1 and send a first request (PORT=, MODEL=)
	@tools/deps run
	@tools/run
image: ## build the container image with docker, podman or buildah
	@tools/image

PREFIX ?= /usr/local
INSTALLED = bin/lamina share/man/man1/lamina.1 lib/systemd/system/lamina.service \
            share/bash-completion/completions/lamina
$(BUILD)/lamina.1: docs/lamina.1.scd
	@tools/deps install
	@mkdir -p $(@D)
	scdoc < $< > $@
$(BUILD)/lamina.service: tools/install/lamina.service
	sed 's|@PREFIX@|$(PREFIX)|' $< > $@

.PHONY: install uninstall
install: all $(BUILD)/lamina.1 $(BUILD)/lamina.service ## install under DESTDIR= PREFIX=/usr/local
	install -D -m 755 -s $(BUILD)/lamina $(DESTDIR)$(PREFIX)/bin/lamina
	install -D -m 644 $(BUILD)/lamina.1 $(DESTDIR)$(PREFIX)/share/man/man1/lamina.1
	install -D -m 644 $(BUILD)/lamina.service $(DESTDIR)$(PREFIX)/lib/systemd/system/lamina.service
	install -D -m 644 tools/install/lamina.bash $(DESTDIR)$(PREFIX)/share/bash-completion/completions/lamina
uninstall: ## remove what install put there
	rm -f $(addprefix $(DESTDIR)$(PREFIX)/,$(INSTALLED))

# ---- Tests -----------------------------------------------------------------------------------------

.PHONY: test test-tsan check check-avx512 fuzz bench bench-norms bench-compare cover
test: test-deps model ## run every test; ends with the line `N passed, N failed`
	@$(MAKE) --no-print-directory tests
	@$(MAKE) --no-print-directory VARIANT=asan tests
	@$(MAKE) --no-print-directory VARIANT=tsan checks
	@tests/run --variant tsan --only check_
	@tests/run --variant asan
	@tests/run --variant release
test-tsan: test-deps model ## run the HTTP suites against a server under ThreadSanitizer (minutes)
	@$(MAKE) --no-print-directory VARIANT=tsan checks all
	@tests/run --variant tsan
check-avx512: test-deps ## check the AVX-512 kernels on any x86-64 with AVX2, emulated by SIMDe
	@$(MAKE) --no-print-directory VARIANT=simde build/simde/tests/check_kernels
	build/simde/tests/check_kernels
check: lint test ## what .ci/run calls: lint, then test

T ?=
S ?= 60
fuzz: test-deps ## fuzz one target T=name, or each in turn, for S=60 seconds
	@$(MAKE) --no-print-directory VARIANT=fuzz fuzzers
	@tools/fuzz $(S) $(T)
bench: all model ## time the engine on the default model
	$(BUILD)/lamina bench $(MODEL)
bench-norms: $(BUILD)/bench/bench_norms model ## time every norm beside memcpy and a layer of the default model
	$< $(MODEL)
$(BUILD)/bench/bench_%: $$(call obj,$$(wildcard bench/*/bench_$$*.c)) $(LIBS_import)
	@mkdir -p $(@D)
	$(call say,LINK)$(LINK_TO) $(SYS_import)
BASE ?= HEAD
bench-compare: all model ## time the engine against that of BASE=git-ref, interleaved
	@tools/bench-compare $(BASE)
cover: test-deps model ## line and branch coverage of the tests (gcovr)
	@tools/deps cover
	@$(MAKE) --no-print-directory VARIANT=cover tests
	@tools/cover

# ---- Lint ------------------------------------------------------------------------------------------

FORMATTED = $(shell find core api server tests bench \( -name '*.c' -o -name '*.h' \) 2>/dev/null)
TIDY := $(patsubst %.c,$(BUILD)/lint/%.tidy,$(SOURCES))
ALONE := $(patsubst %.h,$(BUILD)/lint/%.alone,$(HEADERS))

.PHONY: lint fmt fmt-check check-headers check-links tidy test-deps
lint: test-deps fmt-check check-headers check-links ## layers, format, headers, clang-tidy, links
	@tools/lint
	@$(MAKE) --no-print-directory tidy
fmt: test-deps ## format every source file
	@clang-format-14 -i $(FORMATTED)
fmt-check: test-deps
	@clang-format-14 --dry-run -Werror $(FORMATTED)
tidy: $(TIDY)
$(BUILD)/lint/%.tidy: %.c .clang-tidy $(HEADERS)
	@mkdir -p $(@D)
	@echo tidy $<
	@clang-tidy-14 --quiet $< -- $(LANG_C) $(call isa,$<) 2>$@.log || { cat $@.log; exit 1; }
	@mv $@.log $@
check-headers: $(ALONE) ## compile each header alone
$(BUILD)/lint/%.alone: %.h $(HEADERS)
	@mkdir -p $(@D)
	@printf '#include "$<"\nextern int unused;\n' | $(CC) $(LANG_C) $(WARN) -xc -fsyntax-only -
	@touch $@
check-links: core ## the engine needs libc and libm only
	@tools/check-links $(LIBS_core)
test-deps:
	@tools/deps test

.PHONY: hooks compile_commands clean help FORCE
hooks: ## check format and layers before each commit
	git config core.hooksPath tools/hooks
compile_commands: ## write compile_commands.json for editors
	@tools/compile-commands
clean: ## remove build/
	rm -rf build
help: ## list these targets
	@awk -F ':.*## ' '/^[a-z0-9_ -]+:.*## /{printf "  %-18s %s\n", $$1, $$2}' Makefile

-include $(shell find $(BUILD)/obj -name '*.d' 2>/dev/null)
