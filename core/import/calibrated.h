/* Writing what calibration found. Internal to core/import; import.h has the call. */
#ifndef LAM_IMPORT_CALIBRATED_H
#define LAM_IMPORT_CALIBRATED_H

#include "core/import/import.h"
#include "core/import/tensors.h"

/* Fills m->profile from lamina_profile.safetensors of the directory, if it is there. A profile that
 * lacks a tensor or has another width is refused. */
lam_status lam__read_profile(lam_model *m, const lam_dir *d, const lam_family *family,
                             lam_err *err);

/* The norms without running tensors, to a new file. */
lam_status lam__write_profile(const lam_model *m, const lam_family *family,
                              const lam_new_statistics *s, const char *path, lam_err *err);

#endif
