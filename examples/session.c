/* SPDX-License-Identifier: Apache-2.0 */
/* Many operations of one thread in flight at once, existence, counting, and paging through a range, from C.
   Usage: session_c POOL

   On a store that is larger than the processor's caches a session is several times faster than one call after the
   other: the cache misses of its operations overlap, and its updates share fences. */
#include <bonsai/c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NUMBERS 1000
#define KEY_BYTES 11 /* "square/0000" */

static char* err = NULL;

static void must(int code) {
  if (code == BONSAI_OK) return;
  fprintf(stderr, "%s\n", err != NULL ? err : bonsai_code_name(code));
  exit(1);
}

/* Keys are in bytewise order, so numbers have leading zeros. */
static void make_key(char* key, int number) { snprintf(key, KEY_BYTES + 1, "square/%04d", number % 10000); }

static void store_squares(bonsai_t* db) {
  /* What an operation is given must stay where it is until the wait returns. */
  static char keys[NUMBERS][KEY_BYTES + 1], values[NUMBERS][16];
  int i;
  bonsai_session_t* session = NULL;
  must(bonsai_session_create(db, 32, &session, &err));
  for (i = 0; i < NUMBERS; ++i) {
    make_key(keys[i], i);
    snprintf(values[i], sizeof values[i], "%d", i * i);
    bonsai_session_put(session, keys[i], KEY_BYTES, values[i], strlen(values[i]), NULL);
  }
  must(bonsai_session_wait(session, &err)); /* of all; a bonsai_result_t would hold each one's */
  bonsai_session_destroy(session);
}

static void print_some(bonsai_t* db) {
  static const int numbers[2] = {12, 999};
  char keys[2][KEY_BYTES + 1], values[2][16];
  bonsai_result_t results[2];
  int i;
  bonsai_session_t* session = NULL;
  must(bonsai_session_create(db, 32, &session, &err));
  for (i = 0; i < 2; ++i) {
    make_key(keys[i], numbers[i]);
    bonsai_session_get(session, keys[i], KEY_BYTES, values[i], sizeof values[i], &results[i]);
  }
  must(bonsai_session_wait(session, &err));
  for (i = 0; i < 2; ++i) {
    if (results[i].code != BONSAI_OK) continue; /* BONSAI_NOT_FOUND: other errors ended the wait */
    printf("the square of %d is %.*s\n", numbers[i], (int)results[i].value_bytes, values[i]);
  }
  bonsai_session_destroy(session);
  make_key(keys[0], NUMBERS);
  if (bonsai_exists(db, NULL, keys[0], KEY_BYTES, &err) == BONSAI_NOT_FOUND) {
    printf("there is no square of %d\n", NUMBERS);
  }
}

struct page {
  char first[KEY_BYTES + 1], last[KEY_BYTES + 1];
  int records;
};

static unsigned char turn(void* arg, const char* key, size_t key_bytes, const char* value, size_t value_bytes) {
  struct page* page = arg;
  (void)value, (void)value_bytes;
  if (key_bytes != KEY_BYTES) return 1;
  if (page->records++ == 0) memcpy(page->first, key, KEY_BYTES);
  memcpy(page->last, key, KEY_BYTES);
  return 1;
}

/* Each page begins after the last key of the one before. */
static void print_pages(bonsai_t* db) {
  struct page page;
  char from[KEY_BYTES + 1] = "square/";
  int number;
  bonsai_readoptions_t* after = bonsai_readoptions_create();
  if (after == NULL) must(BONSAI_NO_SPACE);
  bonsai_readoptions_set_from_exclusive(after, 1);
  for (number = 1;; ++number) {
    memset(&page, 0, sizeof page);
    must(bonsai_scan(db, number == 1 ? NULL : after, from, strlen(from), "square/\xff", 8, 400, turn, &page, &err));
    if (page.records == 0) break;
    printf("page %d: %d to %d\n", number, atoi(page.first + 7), atoi(page.last + 7));
    memcpy(from, page.last, sizeof from);
  }
  bonsai_readoptions_destroy(after);
}

int main(int argc, char** argv) {
  uint64_t count = 0;
  bonsai_t* db = NULL;
  bonsai_options_t* options;
  if (argc != 2) {
    fprintf(stderr, "usage: %s POOL, e.g. %s /dev/shm/session.pool\n", argv[0], argv[0]);
    return 2;
  }
  options = bonsai_options_create();
  if (options == NULL) must(BONSAI_NO_SPACE);
  bonsai_options_set_create_if_missing(options, 1);
  bonsai_options_set_pool_bytes(options, 64 << 20);
  must(bonsai_open(options, argv[1], &db, &err));
  bonsai_options_destroy(options);

  store_squares(db);
  must(bonsai_count(db, NULL, "square/", 7, NULL, 0, UINT64_MAX, &count, &err));
  printf("%d squares are stored\n", (int)count);
  print_some(db);
  print_pages(db);

  must(bonsai_close(db, &err));
  return 0;
}
