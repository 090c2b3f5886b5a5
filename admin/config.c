/*
 * config.c - reading agated.conf. One table says what there is; an unknown key or a bad value is an
 * error with its line, never a guess.
 */
#include <stdio.h>
#include <stdlib.h>
#include "admin/config.h"
#include "admin/protocol.h"
#include "base/size.h"

enum setting_kind { SETTING_TEXT, SETTING_PORT, SETTING_COUNT, SETTING_SIZE, SETTING_FLAG };

struct setting {
	const char *key;
	enum setting_kind kind;
	size_t offset, size;
};

#define SETTING(name, k) \
	{ \
#name, k, offsetof(struct adm_config, name), \
		    sizeof(((struct adm_config *)0)->name) \
	}
static const struct setting settings[] = {
    SETTING(listen, SETTING_TEXT),
    SETTING(nfs_port, SETTING_PORT),
    SETTING(mount_port, SETTING_PORT),
    SETTING(portmap_port, SETTING_PORT),
    SETTING(portmap, SETTING_FLAG),
    SETTING(socket, SETTING_TEXT),
    SETTING(drives_dir, SETTING_TEXT),
    SETTING(user, SETTING_TEXT),
    SETTING(reactors, SETTING_COUNT),
    SETTING(memory_bytes, SETTING_SIZE),
    SETTING(import_auto, SETTING_FLAG),
    SETTING(vfio, SETTING_FLAG),
    SETTING(debug, SETTING_FLAG),
};

#define REACTORS_MAX 64

void
config_defaults(struct adm_config *c)
{
	*c = (struct adm_config){
	    .nfs_port = 2049,
	    .mount_port = 20048,
	    .portmap_port = 111,
	    .portmap = true,
	    .socket = AGATE_SOCKET_DEFAULT,
	    .import_auto = true,
	};
}

static bool
config_parse_count(const char *text, uint64_t max, uint64_t *out)
{
	char *end;
	if (text[0] < '0' || text[0] > '9') {
		return false;
	}
	errno = 0;
	unsigned long long n = strtoull(text, &end, 10);
	if (errno != 0 || *end != '\0' || n > max) {
		return false;
	}
	*out = n;
	return true;
}

static bool
config_parse_flag(const char *text, bool *out)
{
	*out = strcmp(text, "on") == 0;
	return *out || strcmp(text, "off") == 0;
}

static bool
config_store(struct adm_config *c, const struct setting *s, const char *value)
{
	char *at = (char *)c + s->offset;
	uint64_t n = 0;
	bool flag;
	switch (s->kind) {
	case SETTING_TEXT:
		if (strlen(value) >= s->size) {
			return false;
		}
		memcpy(at, value, strlen(value) + 1);
		return true;
	case SETTING_PORT:
		if (!config_parse_count(value, UINT16_MAX, &n)) {
			return false;
		}
		*(uint16_t *)(void *)at = (uint16_t)n;
		return true;
	case SETTING_COUNT:
		if (!config_parse_count(value, REACTORS_MAX, &n)) {
			return false;
		}
		*(unsigned *)(void *)at = (unsigned)n;
		return true;
	case SETTING_SIZE:
		if (size_parse(value, &n) != 0) {
			return false;
		}
		*(uint64_t *)(void *)at = n;
		return true;
	case SETTING_FLAG:
		if (!config_parse_flag(value, &flag)) {
			return false;
		}
		*(bool *)(void *)at = flag;
		return true;
	}
	return false;
}

int
config_set(struct adm_config *c, const char *key, const char *value, char *why, size_t why_len)
{
	for (size_t i = 0; i < ARRAY_LEN(settings); i++) {
		if (strcmp(settings[i].key, key) != 0) {
			continue;
		}
		if (config_store(c, &settings[i], value)) {
			return 0;
		}
		snprintf(why, why_len, "'%s' is no value for %s", value, key);
		return -EINVAL;
	}
	snprintf(why, why_len, "there is no setting '%s'", key);
	return -EINVAL;
}

/* Cuts white space at both ends, in place. */
static char *
config_trim(char *s)
{
	while (*s == ' ' || *s == '\t') {
		s++;
	}
	size_t len = strlen(s);
	while (len > 0 && strchr(" \t\r\n", s[len - 1]) != NULL) {
		s[--len] = '\0';
	}
	return s;
}

static int
config_line(struct adm_config *c, char *line, char *why, size_t why_len)
{
	line[strcspn(line, "#")] = '\0';
	char *key = config_trim(line);
	if (*key == '\0') {
		return 0;
	}
	char *equals = strchr(key, '=');
	if (equals == NULL) {
		snprintf(why, why_len, "'%s' isn't 'key = value'", key);
		return -EINVAL;
	}
	*equals = '\0';
	return config_set(c, config_trim(key), config_trim(equals + 1), why, why_len);
}

int
config_load(const char *path, struct adm_config *c, char *why, size_t why_len)
{
	char line[512], what[256];
	FILE *f = fopen(path, "re");
	if (f == NULL) {
		int err = -errno;
		snprintf(why, why_len, "%s: %s", path, err_str(err));
		return err;
	}
	int err = 0;
	for (unsigned number = 1; err == 0 && fgets(line, sizeof(line), f) != NULL; number++) {
		if (strchr(line, '\n') == NULL && strlen(line) == sizeof(line) - 1) {
			snprintf(what, sizeof(what), "the line is too long");
			err = -EINVAL;
		} else {
			err = config_line(c, line, what, sizeof(what));
		}
		if (err != 0) {
			snprintf(why, why_len, "%s:%u: %s", path, number, what);
		}
	}
	fclose(f);
	return err;
}
