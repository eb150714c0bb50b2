# Lamina. `make help` lists the targets.
#
# Sources are found by folder: a new .c file needs no line here. Layers: core (engine: libc and libm),
# core/import (foreign files: jansson), api (jansson), server (libuv, libmicrohttpd).
# VARIANT names the build folder and its flags: release (default), debug, asan, tsan, fuzz.

VARIANT ?= release
CC ?= gcc
BUILD := $(if $(filter release,$(VARIANT)),build,build/$(VARIANT))

CSTD := -std=c11 -D_GNU_SOURCE -I.
WARN := -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wdouble-promotion -Wswitch-enum \
        -Wmissing-prototypes -Wstrict-prototypes -Wvla -Wundef -Wformat=2 -Wno-overlength-strings -Werror
MATH := -fno-math-errno -fno-trapping-math -ffp-contract=off
HARD := -fstack-protector-strong -fPIE
CFLAGS_release := -O2 -g -fno-omit-frame-pointer -D_FORTIFY_SOURCE=2
CFLAGS_debug   := -Og -g -DLAM_DEBUG
CFLAGS_asan    := -O1 -g -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=all
CFLAGS_tsan    := -O1 -g -fno-omit-frame-pointer -fsanitize=thread
LDFLAGS_asan   := -fsanitize=address,undefined
LDFLAGS_tsan   := -fsanitize=thread

CFLAGS_ALL = $(CSTD) $(WARN) $(MATH) $(HARD) $(CFLAGS_$(VARIANT)) $(CFLAGS) -MMD -MP
LDFLAGS_ALL = -pie -Wl,-z,relro,-z,now $(LDFLAGS_$(VARIANT)) $(LDFLAGS)

# Kernels: optimized per file, and compiled for the instruction set that the file name ends in.
ISA_avx2   := -mavx2 -mfma -mf16c
ISA_avx512 := -mavx512f -mavx512bw -mavx512dq -mavx512vl -mfma
ARCH := $(shell $(CC) -dumpmachine | cut -d- -f1)

rwildcard = $(foreach d,$(wildcard $1/*),$(if $(filter $1/import,$(d)),,$(filter %.c,$(d)) $(call rwildcard,$(d))))
CORE_SRC   := $(sort $(call rwildcard,core))
ifneq ($(ARCH),x86_64)
CORE_SRC   := $(filter-out %_avx2.c %_avx512.c,$(CORE_SRC))
endif
IMPORT_SRC := $(wildcard core/import/*.c)
API_SRC    := $(wildcard api/*.c)
SERVER_SRC := $(filter-out server/main.c,$(wildcard server/*.c server/*/*.c))

obj = $(patsubst %.c,$(BUILD)/obj/%.o,$(1))
LIB_CORE   := $(BUILD)/libcore.a
LIB_IMPORT := $(BUILD)/libimport.a
LIB_API    := $(BUILD)/libapi.a
LIB_SERVER := $(BUILD)/libserver.a
SYS_API    := -ljansson -lm
SYS_SERVER := -lmicrohttpd -luv -lpthread

.PHONY: all
all: $(BUILD)/lamina

$(BUILD)/lamina: $(call obj,server/main.c) $(LIB_SERVER) $(LIB_API) $(LIB_IMPORT) $(LIB_CORE)
	$(CC) $(LDFLAGS_ALL) -o $@ $^ $(SYS_SERVER) $(SYS_API)

$(LIB_CORE): $(call obj,$(CORE_SRC))
$(LIB_IMPORT): $(call obj,$(IMPORT_SRC))
$(LIB_API): $(call obj,$(API_SRC))
$(LIB_SERVER): $(call obj,$(SERVER_SRC))
$(BUILD)/lib%.a:
	rm -f $@ && $(AR) rcs $@ $^

KERNEL_OPT := $(if $(filter release,$(VARIANT)),-O3,)
$(BUILD)/obj/%_avx2.o: ISA_FLAGS = $(ISA_avx2)
$(BUILD)/obj/%_avx512.o: ISA_FLAGS = $(ISA_avx512)
$(BUILD)/obj/core/kernels/%.o: EXTRA = $(KERNEL_OPT)
$(BUILD)/obj/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_ALL) $(EXTRA) $(ISA_FLAGS) -c $< -o $@

# Unit tests: one Criterion program per layer, linked with that layer and those below it only.
UNIT_LIBS_core   := $(LIB_CORE)
UNIT_LIBS_import := $(LIB_IMPORT) $(LIB_CORE)
UNIT_LIBS_api    := $(LIB_API) $(LIB_IMPORT) $(LIB_CORE)
UNIT_LIBS_server := $(LIB_SERVER) $(LIB_API) $(LIB_IMPORT) $(LIB_CORE)
UNIT_SYS_core    := -lm
UNIT_SYS_import  := $(SYS_API)
UNIT_SYS_api     := $(SYS_API)
UNIT_SYS_server  := $(SYS_SERVER) $(SYS_API)
UNITS := $(foreach l,core import api server,$(if $(wildcard tests/unit/$(l)/*.c),$(BUILD)/tests/unit-$(l)))
.SECONDEXPANSION:
$(BUILD)/tests/unit-%: $$(call obj,$$(wildcard tests/unit/$$*/*.c)) $$(UNIT_LIBS_$$*)
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS_ALL) -o $@ $^ -lcriterion $(UNIT_SYS_$*)

# Plain programs: tests/<kind>/check_<name>.c -> build/tests/check_<name>
CHECKS := $(patsubst %.c,$(BUILD)/tests/%,$(notdir $(wildcard tests/*/check_*.c)))
$(BUILD)/tests/check_%: $$(call obj,$$(wildcard tests/*/check_$$*.c)) $(LIB_SERVER) $(LIB_API) $(LIB_IMPORT) $(LIB_CORE)
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS_ALL) -o $@ $^ $(SYS_SERVER) $(SYS_API)

.PHONY: units checks
units: $(UNITS)
checks: $(CHECKS)

.PHONY: clean
clean:
	rm -rf build

-include $(shell find $(BUILD)/obj -name '*.d' 2>/dev/null)
