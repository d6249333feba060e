// The identity of a served model: what changes it, and its description.
#include "span/model.h"
#include "tiny_model.h"

static void open_tiny(const char *name, uint64_t seed, uint32_t changed_layer, model_file **out) {
    model_config c = tiny_llama();
    static tiny_file weights;
    char tensor[64];
    tiny_fill(&weights, &c, seed);
    snprintf(tensor, sizeof tensor, "model.layers.%u.mlp.up_proj.weight", changed_layer);
    if (changed_layer < c.layers) weights.values[tiny_index(&weights, tensor)][17] += 1;
    tiny_write(name, &c, &weights);
    tiny_free(&weights);
    braid_error error = {0};
    if (model_file_open(name, out, &error)) fail_msg("%s", error.text);
}

static void only_the_layers_that_are_held_must_agree(void **state) {
    (void)state;
    model_file *one, *other;
    static span_model m, n;
    braid_error error = {0};
    open_tiny("one.gguf", 3, 99, &one);
    open_tiny("other", 3, 1, &other);
    assert_int_equal(span_model_read(one, "some/one.gguf", &m, &error), BRAID_OK);
    assert_int_equal(span_model_read(other, "other/", &n, &error), BRAID_OK);
    assert_string_equal(m.name, "one");
    assert_string_equal(n.name, "other");
    assert_int_equal(m.layers, 3);
    braid_hash a = span_model_hash(&m), b = span_model_hash(&n);
    assert_false(hash_equal(&a, &b));
    assert_int_equal(span_model_check(&m, other, "other", 0, 1, true, &error), BRAID_OK);
    assert_int_equal(span_model_check(&m, other, "other", 2, 3, true, &error), BRAID_OK);
    assert_int_equal(span_model_check(&m, other, "other", 0, 3, false, &error), BRAID_IDENTITY);
    assert_non_null(strstr(error.text, "layer 1"));
    char here[17];
    id_hex(n.layer[1].bytes, 8, here);
    assert_non_null(strstr(error.text, here));
    assert_true(span_model_bytes(one, 0, 3) == 3 * span_model_bytes(one, 1, 2));
    model_file_close(one);
    model_file_close(other);
}

static void the_settings_that_change_bits_are_part_of_it(void **state) {
    (void)state;
    model_file *one;
    static span_model m;
    open_tiny("one", 3, 99, &one);
    assert_int_equal(span_model_read(one, "one", &m, NULL), BRAID_OK);
    braid_hash first = span_model_hash(&m), now;
    bool *flags[] = {&m.exact, &m.half_cache, &m.narrow};
    for (int i = 0; i < 3; i++) {
        *flags[i] = true;
        now = span_model_hash(&m);
        assert_false(hash_equal(&first, &now));
        *flags[i] = false;
    }
    strcpy(m.name, "renamed");
    now = span_model_hash(&m);
    assert_true(hash_equal(&first, &now));
    model_file_close(one);
}

static void a_description_reads_back(void **state) {
    (void)state;
    static span_model m, again;
    m = (span_model){
        .name = "m", .layers = SPAN_MAX_LAYERS, .dim = 64, .vocab = 128, .context = 64, .half_cache = true};
    for (uint32_t i = 0; i < m.layers; i++) memset(m.layer[i].bytes, (int)i, BRAID_ID_BYTES);
    size_t length = 0;
    char *text = span_model_describe(&m, &length);
    assert_non_null(text);
    assert_in_range(length, 1, SPAN_MAX_DESCRIPTION);
    braid_error error = {0};
    if (span_model_parse(text, length, &again, &error)) fail_msg("%s", error.text);
    braid_hash a = span_model_hash(&m), b = span_model_hash(&again);
    assert_true(hash_equal(&a, &b));
    assert_string_equal(again.name, "m");
    for (size_t cut = 0; cut < length; cut += 101)
        assert_int_not_equal(span_model_parse(text, cut, &again, NULL), BRAID_OK);
    static const char other[] = "{\"kind\":\"something\"}";
    assert_int_equal(span_model_parse(other, sizeof other - 1, &again, &error), BRAID_STATE);
    assert_non_null(strstr(error.text, "training run"));
    free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(only_the_layers_that_are_held_must_agree, tiny_setup, tiny_teardown),
        cmocka_unit_test_setup_teardown(the_settings_that_change_bits_are_part_of_it, tiny_setup, tiny_teardown),
        cmocka_unit_test(a_description_reads_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
