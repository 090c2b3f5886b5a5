/*
 * main.c - agate-dump: reads the drives of a pool, or images of them, without the daemon, and
 * changes nothing. See agate-dump.8.
 */
#include <stdlib.h>
#include <unistd.h>

#include "dump/dump.h"

static const char usage_text[] = "usage: agate-dump [-v] [-p POOL] [-t TXG] DRIVE... COMMAND\n"
				 "commands: labels\n"
				 "          config\n"
				 "          datasets\n"
				 "          ls [-r] DATASET [PATH]\n"
				 "          cat DATASET PATH\n"
				 "          extract DATASET PATH DIRECTORY\n"
				 "          object DATASET NUMBER\n"
				 "          accounts DATASET\n"
				 "          block SET:SECTOR:ASIZE\n"
				 "          log\n"
				 "          space\n";

struct options {
	const char *pool;
	uint64_t txg;
	bool verbose, recursive;
	struct dump_drive *drives;
	uint32_t drive_count;
};

static int
run_labels(const struct options *o, struct dump_pool *p, char **args)
{
	(void)p;
	(void)args;
	return cmd_labels(o->drives, o->drive_count, o->verbose);
}

static int
run_config(const struct options *o, struct dump_pool *p, char **args)
{
	(void)o;
	(void)args;
	return cmd_config(p);
}

static int
run_datasets(const struct options *o, struct dump_pool *p, char **args)
{
	(void)o;
	(void)args;
	return cmd_datasets(p);
}

static int
run_ls(const struct options *o, struct dump_pool *p, char **args)
{
	if (args[1] != NULL) {
		out_unescape(args[1]);
	}
	return cmd_ls(p, args[0], args[1] != NULL ? args[1] : "", o->recursive);
}

static int
run_cat(const struct options *o, struct dump_pool *p, char **args)
{
	(void)o;
	out_unescape(args[1]);
	return cmd_cat(p, args[0], args[1]);
}

static int
run_extract(const struct options *o, struct dump_pool *p, char **args)
{
	(void)o;
	out_unescape(args[1]);
	return cmd_extract(p, args[0], args[1], args[2]);
}

static int
run_object(const struct options *o, struct dump_pool *p, char **args)
{
	(void)o;
	return cmd_object(p, args[0], args[1]);
}

static int
run_accounts(const struct options *o, struct dump_pool *p, char **args)
{
	(void)o;
	return cmd_accounts(p, args[0]);
}

static int
run_block(const struct options *o, struct dump_pool *p, char **args)
{
	(void)o;
	return cmd_block(p, args[0]);
}

static int
run_log(const struct options *o, struct dump_pool *p, char **args)
{
	(void)o;
	(void)args;
	return cmd_log(p);
}

static int
run_space(const struct options *o, struct dump_pool *p, char **args)
{
	(void)o;
	(void)args;
	return cmd_space(p);
}

static const struct command {
	const char *name;
	int args_min, args_max;
	bool needs_pool;
	int (*run)(const struct options *o, struct dump_pool *p, char **args);
} commands[] = {
    {"labels", 0, 0, false, run_labels},
    {"config", 0, 0, true, run_config},
    {"datasets", 0, 0, true, run_datasets},
    {"ls", 1, 2, true, run_ls},
    {"cat", 2, 2, true, run_cat},
    {"extract", 3, 3, true, run_extract},
    {"object", 2, 2, true, run_object},
    {"accounts", 1, 1, true, run_accounts},
    {"block", 1, 1, true, run_block},
    {"log", 0, 0, true, run_log},
    {"space", 0, 0, true, run_space},
};

static const struct command *
command_find(const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(commands); i++) {
		if (strcmp(commands[i].name, name) == 0) {
			return &commands[i];
		}
	}
	return NULL;
}

static int
usage(void)
{
	(void)fputs(usage_text, stderr);
	return 2;
}

/* A drive that can't be opened is as good as missing. */
static int
drives_open(struct options *o, char **paths, int count)
{
	o->drives = mem_zalloc_array((size_t)count, sizeof(*o->drives));
	if (o->drives == NULL) {
		return -ENOMEM;
	}
	for (int i = 0; i < count; i++) {
		int err = dump_drive_open(paths[i], &o->drives[o->drive_count]);

		if (err != 0) {
			out_error("%s: %s", paths[i], err_str(err));
			continue;
		}
		o->drive_count++;
	}
	return o->drive_count > 0 ? 0 : -ENOENT;
}

static int
run(struct options *o, const struct command *cmd, char **args)
{
	struct dump_pool *p = mem_zalloc(sizeof(*p));
	int status = 1;

	if (p == NULL) {
		return status;
	}
	if (!cmd->needs_pool) {
		status = cmd->run(o, NULL, args);
	} else if (dump_pool_open(o->drives, o->drive_count, o->pool, o->txg, p) == 0) {
		p->verbose = o->verbose;
		status = cmd->run(o, p, args);
		if (p->repaired > 0) {
			out_note(
			    "%llu blocks were damaged on some drive and were had from elsewhere",
			    (unsigned long long)p->repaired);
		}
		dump_pool_close(p);
	}
	mem_free(p);
	return status;
}

/* -r may stand before the command or behind it. */
static int
args_shift(struct options *o, char **args, int count)
{
	int kept = 0;

	for (int i = 0; i < count; i++) {
		if (strcmp(args[i], "-r") == 0) {
			o->recursive = true;
		} else {
			args[kept++] = args[i];
		}
	}
	args[kept] = NULL;
	return kept;
}

int
main(int argc, char **argv)
{
	const struct command *cmd = NULL;
	struct options o = {0};
	int status, opt, first, at, count;
	char *end;

	while ((opt = getopt(argc, argv, "+vrp:t:")) != -1) {
		switch (opt) {
		case 'v':
			o.verbose = true;
			break;
		case 'r':
			o.recursive = true;
			break;
		case 'p':
			o.pool = optarg;
			break;
		case 't':
			o.txg = strtoull(optarg, &end, 0);
			if (o.txg == 0 || *end != '\0') {
				return usage();
			}
			break;
		default:
			return usage();
		}
	}
	first = optind;
	for (at = first; at < argc && cmd == NULL; at++) {
		cmd = command_find(argv[at]);
	}
	if (cmd == NULL || at - 1 == first) {
		return usage();
	}
	count = args_shift(&o, argv + at, argc - at);
	if (count < cmd->args_min || count > cmd->args_max) {
		return usage();
	}
	if (drives_open(&o, argv + first, at - 1 - first) != 0) {
		mem_free(o.drives);
		return 1;
	}
	status = run(&o, cmd, argv + at);
	for (uint32_t i = 0; i < o.drive_count; i++) {
		dump_drive_close(&o.drives[i]);
	}
	mem_free(o.drives);
	if (fflush(stdout) != 0 || ferror(stdout) != 0) {
		out_error("writing the output failed");
	}
	return status != 0 ? status : out_error_count() > 0;
}
