// The verbs of braid.
#include "cli/cli.h"

#include <stddef.h>

static const cli_verb verbs[] = {
    {"up", cli_up, "train with a swarm of processes on this machine"},
    {"node", cli_node, "run one peer: join a run, or start one"},
    {"train", cli_train, "train in one process, from a description (RUN.yaml)"},
    {"plan", cli_plan, "show the memory that a run (RUN.yaml) needs, stage by stage"},
    {"profile", cli_profile, "measure what each layer of a run costs on this machine"},
    {"generate", cli_generate, "continue a text with a trained model"},
    {"chat", cli_chat, "talk with a model that has a chat template"},
    {"serve", cli_serve, "serve a model over HTTP: the API of OpenAI, and a page"},
    {"eval", cli_eval, "measure a model: perplexity, multiple choice"},
    {"tokenize", cli_tokenize, "print the token ids of a text, or train a tokenizer"},
    {"convert", cli_convert, "write a model in another form: a GGUF file or a directory"},
    {"tune", cli_tune, "adapt a model to examples: train a LoRA adapter"},
    {"merge", cli_merge, "add a LoRA adapter to the weights of a model"},
    {"inspect", cli_inspect, "show a model's architecture and tensors, and what each of N peers would hold"},
    {"status", cli_status, "show the state of a run or a served model, and of each peer"},
    {"plot", cli_plot, "draw a run from its events: loss, speed, peers, repairs"},
    {"keygen", cli_keygen, "create a peer's key"},
    {"sim", cli_sim, "simulate a swarm from its description (SCENARIO.yaml)"},
    {"bench", cli_bench, "time training steps or a checkpoint on this machine"},
    {NULL, NULL, NULL},
};

const cli_program cli_this_program = {
    .kind = "verb",
    .usage = "Usage: braid VERB [FLAGS] [ARGUMENTS]\n\nTrains one language model on many machines, which may join and leave at any time.\n\nVerbs:\n",
    .closing = "\n'braid VERB --help' shows a verb's flags and examples; 'braid --version' the version.\n",
    .verb = verbs,
};
