// Red-black trees. Callers search and link nodes; these functions rebalance: a red
// node has no red child, and all paths to leaves have the same number of black nodes.
// A node's colour is bit 0 of its parent word.
#include <linux/types.h>
#include <linux/rbtree.h>
#include <linux/export.h>

#define BLACK 1UL

static bool is_red(const struct rb_node *n)
{
	return n && !(n->__rb_parent_color & BLACK);
}

static void set_parent(struct rb_node *n, struct rb_node *parent)
{
	n->__rb_parent_color = (n->__rb_parent_color & BLACK) | (unsigned long)parent;
}

static void set_black(struct rb_node *n)
{
	n->__rb_parent_color |= BLACK;
}

static void set_red(struct rb_node *n)
{
	n->__rb_parent_color &= ~BLACK;
}

// change_child replaces old by new below parent.
static void change_child(struct rb_node *old, struct rb_node *new, struct rb_node *parent, struct rb_root *root)
{
	if (!parent)
		root->rb_node = new;
	else if (parent->rb_left == old)
		parent->rb_left = new;
	else
		parent->rb_right = new;
}

// Returns the right child of n if right is true, else the left one.
static struct rb_node **child(struct rb_node *n, bool right)
{
	return right ? &n->rb_right : &n->rb_left;
}

// rotate moves n down to the given side, and its other child up.
static void rotate(struct rb_node *n, bool right, struct rb_root *root)
{
	struct rb_node *up = *child(n, !right), *across = *child(up, right), *parent = rb_parent(n);

	*child(n, !right) = across;
	if (across)
		set_parent(across, n);
	*child(up, right) = n;
	change_child(n, up, parent, root);
	set_parent(up, parent);
	set_parent(n, up);
}

void rb_insert_color(struct rb_node *node, struct rb_root *root)
{
	struct rb_node *parent, *grand, *uncle;
	bool right;

	while ((parent = rb_parent(node)) && is_red(parent)) {
		grand = rb_parent(parent);
		right = parent == grand->rb_right;
		uncle = *child(grand, !right);
		if (is_red(uncle)) {
			set_black(uncle);
			set_black(parent);
			set_red(grand);
			node = grand;
			continue;
		}
		if (node == *child(parent, !right)) {
			rotate(parent, right, root);
			parent = node;
		}
		set_black(parent);
		set_red(grand);
		rotate(grand, !right, root);
		break;
	}
	set_black(root->rb_node);
}
EXPORT_SYMBOL(rb_insert_color);

// rebalance repairs the tree after the paths through node (which may be NULL), a
// child of parent, have lost a black node.
static void rebalance(struct rb_node *node, struct rb_node *parent, struct rb_root *root)
{
	struct rb_node *sibling;
	bool right;

	while (parent && !is_red(node)) {
		right = node == parent->rb_right;
		sibling = *child(parent, !right);
		if (is_red(sibling)) {
			set_black(sibling);
			set_red(parent);
			rotate(parent, right, root);
			sibling = *child(parent, !right);
		}
		if (!is_red(sibling->rb_left) && !is_red(sibling->rb_right)) {
			set_red(sibling);
			node = parent;
			parent = rb_parent(node);
			continue;
		}
		if (!is_red(*child(sibling, !right))) {
			set_black(*child(sibling, right));
			set_red(sibling);
			rotate(sibling, !right, root);
			sibling = *child(parent, !right);
		}
		if (is_red(parent))
			set_red(sibling);
		else
			set_black(sibling);
		set_black(parent);
		set_black(*child(sibling, !right));
		rotate(parent, right, root);
		return;
	}
	if (node)
		set_black(node);
}

void rb_erase(struct rb_node *node, struct rb_root *root)
{
	struct rb_node *parent = rb_parent(node), *next, *below;
	bool black;

	if (!node->rb_left || !node->rb_right) {
		below = node->rb_left ? node->rb_left : node->rb_right;
		black = !is_red(node);
		change_child(node, below, parent, root);
		if (below)
			set_parent(below, parent);
	} else {
		// The next node gets its place and colour.
		for (next = node->rb_right; next->rb_left; next = next->rb_left)
			;
		black = !is_red(next);
		below = next->rb_right;
		parent = rb_parent(next);
		if (parent == node) {
			parent = next;
		} else {
			parent->rb_left = below;
			if (below)
				set_parent(below, parent);
			next->rb_right = node->rb_right;
			set_parent(next->rb_right, next);
		}
		next->rb_left = node->rb_left;
		set_parent(next->rb_left, next);
		next->__rb_parent_color = node->__rb_parent_color;
		change_child(node, next, rb_parent(node), root);
	}
	if (black)
		rebalance(below, parent, root);
}
EXPORT_SYMBOL(rb_erase);

void rb_replace_node(struct rb_node *victim, struct rb_node *new, struct rb_root *root)
{
	*new = *victim;
	if (new->rb_left)
		set_parent(new->rb_left, new);
	if (new->rb_right)
		set_parent(new->rb_right, new);
	change_child(victim, new, rb_parent(victim), root);
}
EXPORT_SYMBOL(rb_replace_node);

struct rb_node *rb_first(const struct rb_root *root)
{
	struct rb_node *n = root->rb_node;

	while (n && n->rb_left)
		n = n->rb_left;
	return n;
}
EXPORT_SYMBOL(rb_first);

struct rb_node *rb_last(const struct rb_root *root)
{
	struct rb_node *n = root->rb_node;

	while (n && n->rb_right)
		n = n->rb_right;
	return n;
}
EXPORT_SYMBOL(rb_last);

struct rb_node *rb_next(const struct rb_node *node)
{
	struct rb_node *up;

	if (RB_EMPTY_NODE(node))
		return NULL;
	if (node->rb_right) {
		for (node = node->rb_right; node->rb_left; node = node->rb_left)
			;
		return (struct rb_node *)node;
	}
	while ((up = rb_parent(node)) && node == up->rb_right)
		node = up;
	return up;
}
EXPORT_SYMBOL(rb_next);

struct rb_node *rb_prev(const struct rb_node *node)
{
	struct rb_node *up;

	if (RB_EMPTY_NODE(node))
		return NULL;
	if (node->rb_left) {
		for (node = node->rb_left; node->rb_right; node = node->rb_right)
			;
		return (struct rb_node *)node;
	}
	while ((up = rb_parent(node)) && node == up->rb_left)
		node = up;
	return up;
}
EXPORT_SYMBOL(rb_prev);

static struct rb_node *deepest(const struct rb_node *n)
{
	while (n->rb_left || n->rb_right)
		n = n->rb_left ? n->rb_left : n->rb_right;
	return (struct rb_node *)n;
}

struct rb_node *rb_first_postorder(const struct rb_root *root)
{
	return root->rb_node ? deepest(root->rb_node) : NULL;
}
EXPORT_SYMBOL(rb_first_postorder);

struct rb_node *rb_next_postorder(const struct rb_node *node)
{
	struct rb_node *parent;

	if (!node)
		return NULL;
	parent = rb_parent(node);
	if (parent && node == parent->rb_left && parent->rb_right)
		return deepest(parent->rb_right);
	return parent;
}
EXPORT_SYMBOL(rb_next_postorder);
