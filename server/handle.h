/* Handlers of the routes that the loop answers itself. */
#ifndef SERVER_HANDLE_H
#define SERVER_HANDLE_H

#include <microhttpd.h>

struct srv_exchange;

enum MHD_Result srv_handle_livez(struct srv_exchange *x);
enum MHD_Result srv_handle_readyz(struct srv_exchange *x);
enum MHD_Result srv_handle_models(struct srv_exchange *x);
enum MHD_Result srv_handle_model(struct srv_exchange *x);
enum MHD_Result srv_handle_info(struct srv_exchange *x);
enum MHD_Result srv_handle_openapi(struct srv_exchange *x);
enum MHD_Result srv_handle_metrics(struct srv_exchange *x);

#endif
