# AGATE_PKG(VARIABLE, pkg-config module, Debian package)
AC_DEFUN([AGATE_PKG], [
  PKG_CHECK_MODULES([$1], [$2], [], [agate_missing="$agate_missing $3"])
])

# AGATE_LIB(VARIABLE, header, library, function, Debian package): a library without a pkg-config file.
AC_DEFUN([AGATE_LIB], [
  $1_LIBS=
  AC_CHECK_HEADER([$2],
    [AC_CHECK_LIB([$3], [$4], [$1_LIBS=-l$3], [agate_missing="$agate_missing $5"])],
    [agate_missing="$agate_missing $5"])
  AC_SUBST([$1_LIBS])
])

# AGATE_WARN_FLAG(flag): add it to WARN_CFLAGS when the compiler knows it.
AC_DEFUN([AGATE_WARN_FLAG], [
  agate_save_CFLAGS=$CFLAGS
  CFLAGS="$CFLAGS -Werror $1"
  AC_MSG_CHECKING([whether $CC accepts $1])
  AC_COMPILE_IFELSE([AC_LANG_PROGRAM([])],
    [AC_MSG_RESULT([yes]); WARN_CFLAGS="$WARN_CFLAGS $1"], [AC_MSG_RESULT([no])])
  CFLAGS=$agate_save_CFLAGS
])

AC_DEFUN([AGATE_WARNINGS], [
  WARN_CFLAGS=
  m4_foreach_w([flag], [-Wall -Wextra -Wshadow -Wconversion -Wsign-conversion -Wcast-qual
    -Wcast-align -Wundef -Wvla -Walloca -Wstrict-prototypes -Wmissing-prototypes
    -Wold-style-definition -Wpointer-arith -Wwrite-strings -Wformat=2 -Wimplicit-fallthrough
    -Wnull-dereference -Wlogical-op -Wduplicated-cond -Wduplicated-branches
    -Wjump-misses-init -Wno-missing-field-initializers], [AGATE_WARN_FLAG(flag)])
  AS_IF([test "x$enable_asan" != xyes && test "x$enable_tsan" != xyes],
    [AGATE_WARN_FLAG([-Wframe-larger-than=2048])])
  AS_IF([test "x$enable_werror" = xyes], [WARN_CFLAGS="$WARN_CFLAGS -Werror"])
  AC_SUBST([WARN_CFLAGS])
])

AC_DEFUN([AGATE_SANITIZERS], [
  SAN_CFLAGS=
  AS_IF([test "x$enable_asan" = xyes],
    [SAN_CFLAGS="-fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer"])
  # The NVMe queues order memory for a controller with fences, which this sanitizer can't follow: no threads there.
  AS_IF([test "x$enable_tsan" = xyes], [SAN_CFLAGS="-fsanitize=thread -fno-omit-frame-pointer -Wno-tsan"])
  AS_IF([test "x$enable_fuzz" = xyes], [SAN_CFLAGS="$SAN_CFLAGS -fsanitize=fuzzer-no-link"])
  AS_IF([test "x$enable_asan" = xyes || test "x$enable_tsan" = xyes || test "x$enable_debug" = xyes],
    [AC_DEFINE([AGATE_DEBUG], [1], [slow assertions, lock-rank checks and deliberate-bug switches])])
  AC_SUBST([SAN_CFLAGS])
])
