// Code that asks whether a huge page shares its struct pages, which none does here.
#include <linux/jump_label.h>
#include <linux/export.h>

DEFINE_STATIC_KEY_FALSE(hugetlb_optimize_vmemmap_key);
EXPORT_SYMBOL(hugetlb_optimize_vmemmap_key);
