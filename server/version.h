#ifndef SERVER_VERSION_H
#define SERVER_VERSION_H

#define SRV_VERSION "0.1.0"

#endif
