/* list.h - an intrusive doubly linked list. A link that is on no list points to itself. */
#ifndef AGATE_BASE_LIST_H
#define AGATE_BASE_LIST_H

#include <stdbool.h>
#include "base/compiler.h"

struct list {
	struct list *next, *prev;
};

static inline void
list_init(struct list *l)
{
	l->next = l->prev = l;
}

static inline bool
list_empty(const struct list *l)
{
	return l->next == l;
}

static inline void
list_insert_between(struct list *item, struct list *prev, struct list *next)
{
	item->next = next;
	item->prev = prev;
	prev->next = item;
	next->prev = item;
}

static inline void
list_push_back(struct list *l, struct list *item)
{
	list_insert_between(item, l->prev, l);
}

static inline void
list_push_front(struct list *l, struct list *item)
{
	list_insert_between(item, l, l->next);
}

/* Takes item off its list; harmless when it is on none. */
static inline void
list_remove(struct list *item)
{
	item->next->prev = item->prev;
	item->prev->next = item->next;
	list_init(item);
}

/* Moves everything of from to the end of l; from is empty afterwards. */
static inline void
list_splice_back(struct list *l, struct list *from)
{
	if (list_empty(from)) {
		return;
	}
	from->next->prev = l->prev;
	l->prev->next = from->next;
	from->prev->next = l;
	l->prev = from->prev;
	list_init(from);
}

#define list_entry(item, type, member) container_of(item, type, member)
#define list_first(l, type, member) list_entry((l)->next, type, member)
#define list_for_each(var, l) for (struct list *var = (l)->next; var != (l); var = var->next)
/* the current item may be removed */
#define list_for_each_safe(var, tmp, l)                                                            \
	for (struct list *var = (l)->next, *tmp = var->next; var != (l); var = tmp, tmp = var->next)

#endif
