/* What api/ is linked with, for people. */
#ifndef API_LIBRARIES_H
#define API_LIBRARIES_H

/* "2.14" */
const char *api_jansson_version(void);

#endif
