/* Tells a service manager where we stand (systemd's sd_notify protocol: a datagram to
 * $NOTIFY_SOCKET). */
#ifndef SERVER_NOTIFY_H
#define SERVER_NOTIFY_H

/* `state` is "READY=1" or "STOPPING=1". Without a manager it does nothing. */
void srv_notify(const char *state);

#endif
