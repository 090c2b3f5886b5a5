/* verbs.c - the table of commands: nouns, verbs, what they take, and their help. */
#include "cli/cli.h"

const struct cli_verb cli_verbs[] = {
    {"pool", "create", "njfo", 2, CLI_WORDS_MAX,
	"[-nf] [-o logsize=SIZE] NAME SET... [log DRIVE...] [spare DRIVE...]",
	"SET is raidz1|raidz2|raidz3|mirror followed by drives, or single drives. Names may hold a "
	"range.\n"
	"  pool create tank raidz1 nvme[0-6]n1 log nvme7n1 nvme8n1 spare nvme9n1\n"
	"  -n shows the layout's capacity and writes nothing; -f takes drives that aren't empty.",
	verb_pool_create},
    {"pool", "destroy", "nfyj", 1, 1, "[-n] [--yes] NAME",
	"Ends the pool and forgets its data. -n says what would go.", verb_pool_destroy},
    {"pool", "list", "Hpj", 0, 1, "[-Hpj] [NAME]", "Pools in service, with their capacity.",
	verb_pool_list},
    {"pool", "status", "jp", 0, 1, "[-jp] [NAME]",
	"Health of pools, their sets and drives, and what to do.", verb_pool_status},
    {"pool", "export", "j", 1, 1, "NAME",
	"Takes the pool out of service, cleanly, so that its drives can move.", verb_pool_export},
    {"pool", "import", "HjfRo", 0, 2,
	"[-fR] [-o missing_log=on] [-o rewind=N] [NAME|GUID [NEWNAME]]",
	"Without a name: pools found on drives that aren't in service. -R read-only; -f although "
	"another host used it last.",
	verb_pool_import},
    {"pool", "check", "j", 1, 1, "NAME",
	"Compares everything reachable with the space maps; changes nothing.", verb_pool_check},
    {"fs", "create", "oj", 1, 1, "[-o PROPERTY=VALUE] PATH",
	"  fs create -o compression=zstd tank/home", verb_fs_create},
    {"fs", "destroy", "nfyj", 1, 1, "[-n] [--yes] PATH",
	"Destroys the filesystem. -n says what would go.", verb_fs_destroy},
    {"fs", "list", "Hpj", 0, 1, "[-Hpj] [PATH]", "Filesystems and the space they take.",
	verb_fs_list},
    {"fs", "get", "Hpjr", 2, 2, "[-Hpjr] all|PROPERTY[,PROPERTY] PATH",
	"  fs get compression,recordsize tank/home", verb_fs_get},
    {"fs", "set", "j", 2, 2, "PROPERTY=VALUE PATH",
	"  fs set compression=zstd-3 tank/home\n  fs set compression= tank/home   (inherits again)",
	verb_fs_set},
    {"share", "create", "oj", 1, 1, "[-o rw=CLIENTS] [-o ro=CLIENTS] [-o squash=...] /PATH",
	"Serves a filesystem (made if it isn't there) or a directory of one over NFS.\n"
	"  share create -o rw=10.0.0.0/24 -o ro=10.0.1.5,fd00::/64 /tank/home\n"
	"  Properties: rw, ro, squash=root_squash|no_root_squash|all_squash, anonuid, anongid, "
	"insecure=on|off.",
	verb_share_create},
    {"share", "set", "oj", 1, 1, "-o PROPERTY=VALUE /PATH",
	"Changes a share; clients notice with their next call.", verb_share_set},
    {"share", "remove", "j", 1, 1, "/PATH", "Stops serving it. The data stays.", verb_share_remove},
    {"share", "list", "Hj", 0, 0, "[-Hj]", "Shares and who may use them.", verb_share_list},
    {"disk", "list", "Hpj", 0, 0, "[-Hpj]", "Drives of this machine and what they are used for.",
	verb_disk_list},
    {"disk", "bind", "jf", 1, 1, "[-jf] DRIVE",
	"Drive an NVMe drive ourselves instead of by the kernel (VFIO). It moves with its whole controller.\n"
	"Example: disk bind nvme3n1",
	verb_disk_bind},
    {"disk", "unbind", "j", 1, 1, "[-j] DRIVE", "Give an NVMe drive back to the kernel's driver.",
	verb_disk_unbind},
    {"disk", "health", "Hpj", 0, 0, "[-Hpj]",
	"Temperature, wear and errors of the NVMe drives that we drive ourselves.", verb_disk_health},
    {"system", "status", "Hpj", 0, 0, "[-Hpj]", "The daemon: ports, memory, calls.",
	verb_system_status},
    {NULL, NULL, NULL, 0, 0, NULL, NULL, NULL},
};
