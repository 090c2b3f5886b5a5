/*
 * sandbox.c - the engine's privileges. Descriptors of drives come from the parent, so the engine
 * needs no right to open one; low ports (111) and locked memory are the capabilities it keeps.
 */
#include <grp.h>
#include <pwd.h>
#include <seccomp.h>
#include <sys/capability.h>
#include <sys/prctl.h>
#include <unistd.h>
#include "admin/sandbox.h"

static const cap_value_t kept[] = {CAP_NET_BIND_SERVICE, CAP_IPC_LOCK};

static int
sandbox_keep_caps(void)
{
	cap_t caps = cap_init();
	if (caps == NULL) {
		return -ENOMEM;
	}
	int failed = cap_set_flag(caps, CAP_PERMITTED, (int)ARRAY_LEN(kept), kept, CAP_SET) |
		     cap_set_flag(caps, CAP_EFFECTIVE, (int)ARRAY_LEN(kept), kept, CAP_SET) |
		     cap_set_proc(caps);
	int err = failed != 0 ? -errno : 0;
	cap_free(caps);
	return err;
}

int
sandbox_drop_user(const char *user)
{
	if (user[0] == '\0' || geteuid() != 0) {
		return 0;
	}
	errno = 0;
	struct passwd *pw = getpwnam(user);
	if (pw == NULL) {
		return errno != 0 ? -errno : -ENOENT;
	}
	if (prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) != 0 || setgroups(0, NULL) != 0 ||
	    setgid(pw->pw_gid) != 0 || setuid(pw->pw_uid) != 0) {
		return -errno;
	}
	return sandbox_keep_caps();
}

int
sandbox_seccomp(void)
{
	static const int forbidden[] = {
	    SCMP_SYS(execve),
	    SCMP_SYS(execveat),
#ifndef __SANITIZE_ADDRESS__ /* its leak check at exit stops the other threads so */
	    SCMP_SYS(ptrace),
#endif
	    SCMP_SYS(process_vm_writev),
	    SCMP_SYS(mount),
	    SCMP_SYS(umount2),
	    SCMP_SYS(pivot_root),
	    SCMP_SYS(chroot),
	    SCMP_SYS(init_module),
	    SCMP_SYS(finit_module),
	    SCMP_SYS(delete_module),
	    SCMP_SYS(kexec_load),
	    SCMP_SYS(kexec_file_load),
	    SCMP_SYS(reboot),
	    SCMP_SYS(swapon),
	    SCMP_SYS(bpf),
	    SCMP_SYS(open_by_handle_at),
	    SCMP_SYS(setns),
	    SCMP_SYS(unshare),
	};
	scmp_filter_ctx ctx = seccomp_init(SCMP_ACT_ALLOW);
	if (ctx == NULL) {
		return -ENOMEM;
	}
	int err = 0;
	for (size_t i = 0; i < ARRAY_LEN(forbidden) && err == 0; i++) {
		err = seccomp_rule_add(ctx, SCMP_ACT_ERRNO(EPERM), forbidden[i], 0);
	}
	if (err == 0) {
		err = seccomp_load(ctx);
	}
	seccomp_release(ctx);
	return err;
}
