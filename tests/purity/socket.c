// Planted: a pure room that reaches into another room, which is not pure.
int net_send_everything(void);
int purity_socket(void);

int purity_socket(void) { return net_send_everything(); }
