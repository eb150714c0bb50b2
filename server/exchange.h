/* One request on its connection: from the first call of the handler to the end of its reply. Owned
 * by the loop; freed in MHD's completion callback and nowhere else. */
#ifndef SERVER_EXCHANGE_H
#define SERVER_EXCHANGE_H

#include "server/routes.h"
#include "server/state.h"

enum { SRV_REQUEST_ID_BYTES = 129, SRV_MODEL_NAME_BYTES = 512 };

typedef struct srv_exchange {
    srv_server *server;
    srv_conn *conn;
    struct MHD_Connection *mhd;
    const srv_route *route; /* NULL: no route fits */
    srv_label label;
    uint64_t began_ns;
    char request_id[SRV_REQUEST_ID_BYTES];
    char trace_id[33];
    char model_name[SRV_MODEL_NAME_BYTES]; /* of /v1/models/{id}, decoded */
    bool close;                            /* the connection ends with the reply */
    bool refused;
    api_error error; /* if refused; sent when the request is whole */
    unsigned allow;  /* methods for 405 and OPTIONS, bits of srv_method */

    srv_body body;
    srv_charge charge;
    size_t received; /* bytes of body */

    srv_job *job;     /* given to the workers; NULL once it came back or was cut */
    srv_job *done;    /* came back: holds the reply */
    api_buffer page;  /* a reply made here */
    bool client_gone; /* no reply */

    int status; /* of the reply; 0: none */
    size_t reply_bytes;
} srv_exchange;

/* MHD's callbacks. `cls` is the listener. */
enum MHD_Result srv_exchange_handle(void *cls, struct MHD_Connection *mhd, const char *url,
                                    const char *method, const char *version, const char *data,
                                    size_t *data_bytes, void **state);
void srv_exchange_completed(void *cls, struct MHD_Connection *mhd, void **state,
                            enum MHD_RequestTerminationCode code);

/* Hands a finished job to its exchange and resumes it; frees the job where nobody waits. The caller
 * runs the listeners afterwards. */
void srv_exchange_deliver(srv_job *job);

/* Ends the wait for a suspended request's job: with an error, or because the client is gone (code
 * API_CODE_COUNT). Resumes the connection. */
void srv_exchange_cut(srv_exchange *x, api_code code, const char *sentence);

#endif
