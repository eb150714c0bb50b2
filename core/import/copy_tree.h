/* Copying what surrounds the weights of a model directory. Internal to core/import. */
#ifndef LAM_IMPORT_COPY_TREE_H
#define LAM_IMPORT_COPY_TREE_H

#include "core/import/files.h"

/* Copies the regular files of a directory, and those of its folders, into a directory that is made
 * for it and must not exist. Links are followed. Left out: names that begin with a dot, and weights
 * in any format (`lam_copy_is_weights`): those of the copy differ. */
lam_status lam_copy_tree(const char *from, const char *to, lam_err *err);

bool lam_copy_is_weights(const char *name);

/* Removes such a copy, whole or in part; what is not there is no error. */
lam_status lam_remove_tree(const char *path, lam_err *err);

#endif
