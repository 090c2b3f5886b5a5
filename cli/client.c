/* client.c - one request to agated and its answer. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include "admin/protocol.h"
#include "cli/cli.h"

static int
client_connect(const char **out_path)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	const char *path = getenv(AGATE_SOCKET_ENV);
	if (path == NULL || path[0] == '\0') {
		path = AGATE_SOCKET_DEFAULT;
	}
	*out_path = path;
	if (strlen(path) >= sizeof(addr.sun_path)) {
		errno = ENAMETOOLONG;
		return -1;
	}
	memcpy(addr.sun_path, path, strlen(path));
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd >= 0 && connect(fd, (struct sockaddr *)&addr, sizeof(addr)) != 0) {
		int err = errno;
		close(fd);
		errno = err;
		return -1;
	}
	return fd;
}

bool
client_reaches(void)
{
	const char *path;
	int fd = client_connect(&path);
	if (fd >= 0) {
		close(fd);
	}
	return fd >= 0;
}

static bool
client_send(int fd, json_t *request)
{
	char *text = json_dumps(request, JSON_COMPACT);
	if (text == NULL) {
		return false;
	}
	size_t len = strlen(text), done = 0;
	text[len++] = '\n'; /* in place of the terminator: from here on the length counts */
	while (done < len) {
		ssize_t n = send(fd, text + done, len - done, MSG_NOSIGNAL);
		if (n < 0 && errno != EINTR) {
			break;
		}
		done += n > 0 ? (size_t)n : 0;
	}
	free(text);
	return done == len;
}

static json_t *
client_receive(struct client *c)
{
	char *line = NULL;
	size_t cap = 0;
	json_t *answer = NULL;
	ssize_t len = getline(&line, &cap, c->in);
	if (len > 0) {
		answer = json_loadb(line, (size_t)len, 0, NULL);
	}
	free(line);
	return answer;
}

static void
client_print_line(const char *lead, json_t *error, const char *key, const char *otherwise)
{
	const char *text = json_string_value(json_object_get(error, key));
	text = text != NULL ? text : otherwise;
	if (text[0] != '\0') {
		fputs(lead, stderr);
		print_safe_to(stderr, text);
		putc('\n', stderr);
	}
}

static void
client_print_error(json_t *error)
{
	client_print_line("agate: ", error, "message", "the daemon's answer is no answer");
	client_print_line("       ", error, "untouched", "");
	client_print_line("       ", error, "next", "");
}

static char typed_line[512];

void
client_set_line(int argc, char **argv)
{
	size_t len = 0;
	typed_line[0] = '\0';
	for (int i = 0; i < argc && len + 1 < sizeof(typed_line); i++) {
		len += (size_t)snprintf(
		    typed_line + len, sizeof(typed_line) - len, "%s%s", i > 0 ? " " : "", argv[i]);
	}
	if (len >= sizeof(typed_line)) {
		/* not in the middle of a letter */
		size_t end = sizeof(typed_line) - 1;
		while (end > 0 && ((unsigned char)typed_line[end - 1] & 0x80) != 0) {
			end--;
		}
		typed_line[end] = '\0';
	}
}

int
client_open(struct client *c)
{
	const char *path;
	int fd = client_connect(&path);
	c->in = fd >= 0 ? fdopen(fd, "r") : NULL;
	if (c->in != NULL) {
		c->fd = fd;
		return CLI_OK;
	}
	fprintf(stderr,
	    "agate: the daemon doesn't answer at %s: %s\n"
	    "       Nothing was changed.\n"
	    "       Is agated running? " AGATE_SOCKET_ENV " names another socket.\n",
	    path, strerror(errno));
	if (fd >= 0) {
		close(fd);
	}
	return CLI_UNREACHABLE;
}

void
client_close(struct client *c)
{
	fclose(c->in);
}

int
client_ask(struct client *c, const char *cmd, json_t *args, json_t **out)
{
	json_t *request = json_pack("{s:i, s:s, s:o*, s:s*}", "v", AGATE_PROTOCOL_VERSION, "cmd",
	    cmd, "args", args, "line", typed_line[0] != '\0' ? typed_line : NULL);
	*out = NULL;
	if (request == NULL || args == NULL) {
		fprintf(stderr, "agate: out of memory\n       Nothing was changed.\n");
		json_decref(request);
		return CLI_FAILED;
	}
	bool sent = client_send(c->fd, request);
	json_decref(request);
	json_t *answer = client_receive(c);
	if (!sent || answer == NULL) {
		fprintf(stderr, "agate: the daemon ended the conversation; the command may or may "
				"not have been carried out\n");
		json_decref(answer);
		return CLI_UNREACHABLE;
	}
	if (!json_is_true(json_object_get(answer, "ok"))) {
		client_print_error(json_object_get(answer, "error"));
		json_decref(answer);
		return CLI_FAILED;
	}
	json_t *result = json_object_get(answer, "result");
	*out = result != NULL ? json_incref(result) : json_null();
	json_decref(answer);
	return CLI_OK;
}

int
client_call(const char *cmd, json_t *args, json_t **out)
{
	struct client c;
	int status = client_open(&c);
	*out = NULL;
	if (status != CLI_OK) {
		json_decref(args);
		return status;
	}
	status = client_ask(&c, cmd, args, out);
	client_close(&c);
	return status;
}
