// Planted: a pure room that calls a room that is not pure.
int net_send_everything(void);
int purity_socket(void);

int purity_socket(void) { return net_send_everything(); }
