/*
 * Does docs/on-disk-format.md still say what the headers say? Both are read as text.
 *
 * In the document a structure is a heading "### struct NAME (BYTES)" and the table behind it; in a
 * header the lines of its definition, each field with its hexadecimal offset first in its comment.
 * Every such field of the header must have a row with that name and offset, every row a field
 * (unless the header leaves the offset out); the rows must follow each other without a gap and end
 * at BYTES.
 */
#include <ctype.h>

#include "tests/lib/unit.h"

#define FIELDS_MAX 512
#define NAME_LEN 48

struct field {
	char owner[NAME_LEN], name[NAME_LEN];
	unsigned offset, length;
};
struct fields {
	struct field v[FIELDS_MAX];
	unsigned count;
};
static struct fields doc, code;

static const char *const headers[] = {
    "pool/pool_format.h", "intentlog/ilog_format.h", "fs/fs_format.h"};

static FILE *
source_open(const char *name)
{
	char path[1024];

	(void)snprintf(path, sizeof(path), "%s/%s", SOURCE_DIR, name);
	return fopen(path, "r");
}

static void
field_add(struct fields *f, const char *owner, const char *name, unsigned offset, unsigned length)
{
	CU_ASSERT_FATAL(f->count < FIELDS_MAX);
	struct field *to = &f->v[f->count++];
	(void)snprintf(to->owner, sizeof(to->owner), "%s", owner);
	(void)snprintf(to->name, sizeof(to->name), "%s", name);
	to->offset = offset;
	to->length = length;
}

static const struct field *
field_find(const struct fields *f, const char *owner, const char *name)
{
	for (unsigned i = 0; i < f->count; i++) {
		if (strcmp(f->v[i].owner, owner) == 0 && strcmp(f->v[i].name, name) == 0) {
			return &f->v[i];
		}
	}
	return NULL;
}

/* ---- the document ---- */

struct doc_state {
	char owner[NAME_LEN];
	unsigned size, end;
};

static void
doc_struct_ends(struct doc_state *s)
{
	if (s->owner[0] != 0 && s->end != s->size) {
		printf("%s: rows end at 0x%x, heading says 0x%x\n", s->owner, s->end, s->size);
		CU_ASSERT(s->end == s->size);
	}
	s->owner[0] = 0;
}

static void
doc_line(struct doc_state *s, const char *line)
{
	char name[NAME_LEN];
	unsigned offset, length;

	if (line[0] == '#') {
		doc_struct_ends(s);
		s->end = 0;
		if (sscanf(line, "### struct %47s (%u)", s->owner, &s->size) != 2) {
			s->owner[0] = 0;
		}
		return;
	}
	if (s->owner[0] == 0 ||
	    sscanf(line, "| 0x%x | %u | %47[a-z0-9_] |", &offset, &length, name) != 3) {
		return;
	}
	if (offset != s->end) {
		printf("%s.%s: at 0x%x, but the row before ends at 0x%x\n", s->owner, name, offset,
		    s->end);
		CU_ASSERT(offset == s->end);
	}
	s->end = offset + length;
	field_add(&doc, s->owner, name, offset, length);
}

static void
doc_read(void)
{
	struct doc_state s = {{0}, 0, 0};
	char line[1024];
	FILE *f = source_open("docs/on-disk-format.md");

	CU_ASSERT_PTR_NOT_NULL_FATAL(f);
	while (fgets(line, sizeof(line), f) != NULL) {
		doc_line(&s, line);
	}
	doc_struct_ends(&s);
	(void)fclose(f);
}

/* ---- the headers ---- */

/* The identifier before the first ; or [ of a declaration. */
static bool
code_field_name(const char *line, char name[NAME_LEN])
{
	const char *end = line + strcspn(line, ";[");
	const char *start = end;

	while (start > line && (isalnum((unsigned char)start[-1]) || start[-1] == '_')) {
		start--;
	}
	size_t len = (size_t)(end - start);
	if (*end == 0 || len == 0 || len >= NAME_LEN) {
		return false;
	}
	memcpy(name, start, len);
	name[len] = 0;
	return true;
}

static void
code_line(char owner[NAME_LEN], const char *line)
{
	const char *comment = strstr(line, "/* 0x");
	char name[NAME_LEN];
	unsigned offset;

	if (strncmp(line, "struct ", 7) == 0 && strchr(line, '{') != NULL) {
		CU_ASSERT(sscanf(line, "struct %47[a-z0-9_]", owner) == 1);
		return;
	}
	if (line[0] == '}') {
		owner[0] = 0;
	}
	if (owner[0] == 0 || comment == NULL || sscanf(comment, "/* 0x%x", &offset) != 1 ||
	    !code_field_name(line, name)) {
		return;
	}
	field_add(&code, owner, name, offset, 0);
}

static void
code_read(const char *header)
{
	char line[1024], owner[NAME_LEN] = {0};
	FILE *f = source_open(header);

	CU_ASSERT_PTR_NOT_NULL_FATAL(f);
	while (fgets(line, sizeof(line), f) != NULL) {
		code_line(owner, line);
	}
	(void)fclose(f);
}

static bool
code_has_struct(const char *owner)
{
	for (unsigned i = 0; i < code.count; i++) {
		if (strcmp(code.v[i].owner, owner) == 0) {
			return true;
		}
	}
	return false;
}

static void
test_document(void)
{
	doc.count = code.count = 0;
	doc_read();
	for (size_t i = 0; i < ARRAY_LEN(headers); i++) {
		code_read(headers[i]);
	}
	CU_ASSERT(doc.count > 200 && code.count > 200);
	for (unsigned i = 0; i < code.count; i++) {
		const struct field *c = &code.v[i], *d = field_find(&doc, c->owner, c->name);

		if (d == NULL || d->offset != c->offset) {
			printf("%s.%s at 0x%x: not so in the document\n", c->owner, c->name,
			    c->offset);
			CU_ASSERT(d != NULL && d->offset == c->offset);
		}
	}
	for (unsigned i = 0; i < doc.count; i++) {
		const struct field *d = &doc.v[i];

		if (!code_has_struct(d->owner)) {
			printf("struct %s: not in the headers\n", d->owner);
			CU_ASSERT(code_has_struct(d->owner));
		} else if (field_find(&code, d->owner, d->name) == NULL &&
			   strncmp(d->name, "spare", 5) != 0) {
			printf("%s.%s: not in the headers\n", d->owner, d->name);
			CU_FAIL("a row without a field");
		}
	}
}

int
main(int argc, char **argv)
{
	static const struct unit_test tests[] = {
	    {"the document says what the headers say", test_document}};

	return unit_main("dump_doc", tests, ARRAY_LEN(tests), argc, argv);
}
