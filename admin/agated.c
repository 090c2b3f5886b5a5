/* agated.c - the daemon's main(): options, configuration, then the parent. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include "admin/admin_int.h"
#include "admin/parent.h"

static void
usage(FILE *to)
{
	fputs("usage: agated [-nR] [-c file] [-o key=value] ...\n"
	      "  -c file       configuration file (default " AGATE_CONFIG_DEFAULT ")\n"
	      "  -n            check the configuration and exit\n"
	      "  -o key=value  set one setting, after the file\n"
	      "  -R            don't restart the engine when it dies; exit instead\n",
	    to);
}

static int
agated_load(const char *path, struct adm_config *cfg)
{
	char why[512];
	config_defaults(cfg);
	if (path == NULL) {
		int err = config_load(AGATE_CONFIG_DEFAULT, cfg, why, sizeof(why));
		if (err == 0 || err == -ENOENT) {
			return 0; /* no file: the defaults */
		}
	} else if (config_load(path, cfg, why, sizeof(why)) == 0) {
		return 0;
	}
	fprintf(stderr, "agated: %s\n", why);
	return 1;
}

static int
agated_override(struct adm_config *cfg, const char *text)
{
	char why[512], key[64];
	const char *equals = strchr(text, '=');
	if (equals == NULL || (size_t)(equals - text) >= sizeof(key)) {
		fprintf(stderr, "agated: -o takes key=value, not '%s'\n", text);
		return 1;
	}
	memcpy(key, text, (size_t)(equals - text));
	key[equals - text] = '\0';
	if (config_set(cfg, key, equals + 1, why, sizeof(why)) != 0) {
		fprintf(stderr, "agated: %s\n", why);
		return 1;
	}
	return 0;
}

int
main(int argc, char **argv)
{
	static struct adm_config cfg;
	const char *path = NULL;
	bool check_only = false, restart = true;
	int opt;
	for (int pass = 0; pass < 2; pass++) {
		optind = 1;
		while ((opt = getopt(argc, argv, "c:no:R")) != -1) {
			if (opt == 'c') {
				path = optarg;
			} else if (opt == 'n') {
				check_only = true;
			} else if (opt == 'R') {
				restart = false;
			} else if (opt != 'o') {
				usage(stderr);
				return 2;
			} else if (pass == 1 && agated_override(&cfg, optarg) != 0) {
				return 2;
			}
		}
		if (pass == 0 && (optind != argc || agated_load(path, &cfg) != 0)) {
			if (optind != argc) {
				usage(stderr);
			}
			return 2;
		}
	}
	if (check_only) {
		puts("agated: configuration is fine");
		return 0;
	}
	if (cfg.debug) {
		log_set_level(LOG_DEBUG);
	}
	return parent_main(&cfg, restart);
}
