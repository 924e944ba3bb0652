/* SPDX-License-Identifier: Apache-2.0 */
/* Bonsai from C: open a pool, update it, walk it as of one moment, close it. Usage: hello_c POOL

   Run it twice: the second run finds what the first one stored. */
#include <bonsai/c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char* err = NULL; /* the message of the last failure; one serves all calls */

/* Every function that can fail returns a code; the message says what to do. */
static void must(int code) {
  if (code == BONSAI_OK) return;
  fprintf(stderr, "%s\n", err != NULL ? err : bonsai_code_name(code));
  exit(1);
}

/* Prints the records whose key starts with "fruit/". */
static void print_fruit(bonsai_t* db, const bonsai_readoptions_t* options) {
  size_t key_bytes, value_bytes;
  bonsai_iterator_t* it = bonsai_iter_create(db, options);
  if (it == NULL) must(BONSAI_NO_SPACE);
  for (bonsai_iter_seek(it, "fruit/", 6); bonsai_iter_valid(it); bonsai_iter_next(it)) {
    const char* key = bonsai_iter_key(it, &key_bytes);
    const char* value = bonsai_iter_value(it, &value_bytes);
    if (key_bytes < 6 || memcmp(key, "fruit/", 6) != 0) break;
    printf("  %.*s = %.*s\n", (int)key_bytes, key, (int)value_bytes, value);
  }
  must(bonsai_iter_status(it, &err)); /* it may have ended by a failure */
  bonsai_iter_destroy(it);
}

/* Adds one to the number stored at "runs" and returns it. */
static int count_run(bonsai_t* db) {
  char text[32];
  int runs = 0;
  size_t bytes = 0;
  int code = bonsai_get_into(db, NULL, "runs", 4, text, sizeof text - 1, &bytes, &err);
  if (code != BONSAI_NOT_FOUND) { /* "not found" is an answer, not an error */
    must(code);
    text[bytes] = '\0';
    runs = atoi(text);
  }
  ++runs;
  snprintf(text, sizeof text, "%d", runs);
  must(bonsai_put(db, "runs", 4, text, strlen(text), &err)); /* when it returns, it survives a crash */
  return runs;
}

static void update_and_print(bonsai_t* db) {
  bonsai_writebatch_t* batch = bonsai_writebatch_create();
  bonsai_readoptions_t* past = bonsai_readoptions_create();
  bonsai_snapshot_t* moment = NULL;
  if (batch == NULL || past == NULL) must(BONSAI_NO_SPACE);

  /* A batch takes effect whole or not at all. */
  must(bonsai_writebatch_put(batch, "fruit/apple", 11, "red", 3, &err));
  must(bonsai_writebatch_put(batch, "fruit/banana", 12, "yellow", 6, &err));
  must(bonsai_writebatch_put(batch, "fruit/cherry", 12, "dark red", 8, &err));
  must(bonsai_write(db, batch, &err));

  /* A snapshot is a moment of the store; what is written later does not show in it. */
  must(bonsai_snapshot_create(db, &moment, &err));
  must(bonsai_delete(db, "fruit/banana", 12, &err));
  printf("now:\n");
  print_fruit(db, NULL);
  bonsai_readoptions_set_snapshot(past, moment);
  printf("before the delete:\n");
  print_fruit(db, past);

  bonsai_snapshot_release(moment); /* snapshots and iterators go before the store */
  bonsai_readoptions_destroy(past);
  bonsai_writebatch_destroy(batch);
}

int main(int argc, char** argv) {
  bonsai_t* db = NULL;
  bonsai_options_t* options;
  if (argc != 2) {
    fprintf(stderr, "usage: %s POOL, e.g. %s /dev/shm/hello.pool\n", argv[0], argv[0]);
    return 2;
  }
  options = bonsai_options_create();
  if (options == NULL) must(BONSAI_NO_SPACE);
  bonsai_options_set_create_if_missing(options, 1);
  bonsai_options_set_pool_bytes(options, 64 << 20);
  must(bonsai_open(options, argv[1], &db, &err));
  bonsai_options_destroy(options);

  printf("this is run %d\n", count_run(db));
  update_and_print(db);

  must(bonsai_close(db, &err));
  return 0;
}
