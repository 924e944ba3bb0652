/* SPDX-License-Identifier: Apache-2.0 */
/* The C interface used by a plain C99 program, as a user of a binding would: it proves that the header is C, that a C
   program links, and that each function keeps its contract. store/c_test.cc covers the corners. */
#define _POSIX_C_SOURCE 200809L /* mkdtemp */
#include <bonsai/c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int failures = 0;

#define EXPECT(condition)                                                      \
  do {                                                                         \
    if (!(condition)) {                                                        \
      fprintf(stderr, "%s:%d: expected %s\n", __FILE__, __LINE__, #condition); \
      ++failures;                                                              \
    }                                                                          \
  } while (0)

static int put(bonsai_t* db, const char* key, const char* value) {
  return bonsai_put(db, key, strlen(key), value, strlen(value), NULL);
}

/* Whether `key` holds `value`; a NULL value means no value. */
static int holds(bonsai_t* db, const bonsai_readoptions_t* options, const char* key, const char* value) {
  size_t bytes = 99;
  char* got = NULL;
  int code = bonsai_get(db, options, key, strlen(key), &got, &bytes, NULL);
  int same = value == NULL ? code == BONSAI_NOT_FOUND && got == NULL && bytes == 0
                           : code == BONSAI_OK && bytes == strlen(value) && memcmp(got, value, bytes) == 0;
  bonsai_free(got);
  return same;
}

static void test_version(void) {
  EXPECT(strcmp(bonsai_version(), BONSAI_VERSION_STRING) == 0);
  EXPECT(bonsai_version_number() == BONSAI_VERSION_NUMBER);
  EXPECT(strcmp(bonsai_code_name(BONSAI_BUSY), "busy") == 0);
  EXPECT(strcmp(bonsai_code_name(-7), "unknown") == 0);
}

static void test_updates_and_batch(bonsai_t* db) {
  char* err = NULL;
  bonsai_writebatch_t* batch = bonsai_writebatch_create();
  EXPECT(put(db, "a", "1") == BONSAI_OK);
  EXPECT(put(db, "empty", "") == BONSAI_OK);
  EXPECT(holds(db, NULL, "a", "1"));
  EXPECT(holds(db, NULL, "empty", ""));
  EXPECT(holds(db, NULL, "absent", NULL));
  EXPECT(bonsai_writebatch_put(batch, "b", 1, "2", 1, &err) == BONSAI_OK);
  EXPECT(bonsai_writebatch_delete(batch, "a", 1, &err) == BONSAI_OK);
  EXPECT(bonsai_writebatch_count(batch) == 2);
  EXPECT(bonsai_write(db, batch, &err) == BONSAI_OK);
  EXPECT(holds(db, NULL, "a", NULL));
  EXPECT(holds(db, NULL, "b", "2"));
  EXPECT(bonsai_delete(db, "empty", 5, &err) == BONSAI_OK);
  EXPECT(bonsai_sync(db, &err) == BONSAI_OK);
  EXPECT(bonsai_drain(db, &err) == BONSAI_OK);
  EXPECT(err == NULL);
  bonsai_writebatch_destroy(batch);
}

static unsigned char count_two(void* arg, const char* key, size_t key_bytes, const char* value, size_t value_bytes) {
  int* seen = arg;
  (void)key, (void)value, (void)value_bytes;
  EXPECT(key_bytes == 1);
  return ++*seen < 2;
}

/* Expects exactly "b", "c", "d" in the store. */
static void test_reads(bonsai_t* db) {
  const char* keys[] = {"c", "x", "b"};
  const size_t keys_bytes[] = {1, 1, 1};
  char* values[3];
  size_t values_bytes[3];
  int codes[3];
  int seen = 0;
  size_t bytes = 0;
  char buffer[4];
  EXPECT(bonsai_multi_get(db, NULL, 3, keys, keys_bytes, values, values_bytes, codes, NULL) == BONSAI_OK);
  EXPECT(codes[0] == BONSAI_OK && values_bytes[0] == 1 && values[0][0] == '3');
  EXPECT(codes[1] == BONSAI_NOT_FOUND && values[1] == NULL);
  EXPECT(codes[2] == BONSAI_OK && values[2][0] == '2');
  bonsai_free(values[0]);
  bonsai_free(values[2]);
  EXPECT(bonsai_get_into(db, NULL, "d", 1, buffer, sizeof buffer, &bytes, NULL) == BONSAI_OK);
  EXPECT(bytes == 1 && buffer[0] == '4');
  EXPECT(bonsai_scan(db, NULL, NULL, 0, NULL, 0, UINT64_MAX, count_two, &seen, NULL) == BONSAI_OK);
  EXPECT(seen == 2);
}

/* The same content, by existence and number. */
static void test_exists_and_count(bonsai_t* db) {
  uint64_t count = 99;
  bonsai_readoptions_t* options = bonsai_readoptions_create();
  EXPECT(bonsai_exists(db, NULL, "c", 1, NULL) == BONSAI_OK);
  EXPECT(bonsai_exists(db, NULL, "x", 1, NULL) == BONSAI_NOT_FOUND);
  EXPECT(bonsai_exists(db, NULL, NULL, 1, NULL) == BONSAI_INVALID_ARGUMENT);
  EXPECT(bonsai_count(db, NULL, NULL, 0, NULL, 0, UINT64_MAX, &count, NULL) == BONSAI_OK && count == 3);
  EXPECT(bonsai_count(db, NULL, "b", 1, "d", 1, UINT64_MAX, &count, NULL) == BONSAI_OK && count == 2);
  bonsai_readoptions_set_from_exclusive(options, 1);
  EXPECT(bonsai_count(db, options, "b", 1, "d", 1, UINT64_MAX, &count, NULL) == BONSAI_OK && count == 1);
  EXPECT(bonsai_count(db, NULL, NULL, 0, NULL, 0, 1, &count, NULL) == BONSAI_OK && count == 1);
  EXPECT(bonsai_count(db, NULL, NULL, 1, NULL, 0, 1, &count, NULL) == BONSAI_INVALID_ARGUMENT && count == 0);
  bonsai_readoptions_destroy(options);
}

static void test_delete_range(bonsai_t* db) {
  uint64_t count = 99;
  char* err = NULL;
  bonsai_readoptions_t* options = bonsai_readoptions_create();
  const char* keys[] = {"range1", "range2", "range3", "range4"};
  for (size_t i = 0; i < 4; ++i) EXPECT(bonsai_put(db, keys[i], 6, "v", 1, NULL) == BONSAI_OK);
  bonsai_readoptions_set_from_exclusive(options, 1);
  EXPECT(bonsai_delete_range(db, options, "range1", 6, "range3", 6, UINT64_MAX, &count, NULL) == BONSAI_OK);
  EXPECT(count == 1 && bonsai_exists(db, NULL, "range2", 6, NULL) == BONSAI_NOT_FOUND);
  EXPECT(bonsai_delete_range(db, NULL, "range", 5, "rangf", 5, 2, &count, NULL) == BONSAI_OK && count == 2);
  EXPECT(bonsai_delete_range(db, NULL, "range", 5, "rangf", 5, UINT64_MAX, NULL, NULL) == BONSAI_OK);
  EXPECT(bonsai_count(db, NULL, "range", 5, "rangf", 5, UINT64_MAX, &count, NULL) == BONSAI_OK && count == 0);
  count = 99;
  EXPECT(bonsai_delete_range(db, NULL, NULL, 1, NULL, 0, 1, &count, &err) == BONSAI_INVALID_ARGUMENT && count == 0);
  EXPECT(err != NULL);
  bonsai_free(err);
  bonsai_readoptions_destroy(options);
}

static void expect_in_order(bonsai_session_t* session, size_t numbers) {
  char keys[100][8];
  char values[100][8];
  bonsai_result_t results[100];
  size_t i;
  for (i = 0; i < numbers; ++i) {
    sprintf(keys[i], "n%03u", (unsigned)i);
    bonsai_session_get(session, keys[i], 4, values[i], sizeof values[i], &results[i]);
  }
  EXPECT(bonsai_session_wait(session, NULL) == BONSAI_OK);
  EXPECT(bonsai_session_in_flight(session) == 0);
  for (i = 0; i < numbers; ++i) {
    EXPECT(results[i].code == BONSAI_OK && results[i].value_bytes == 4);
    EXPECT(memcmp(values[i] + 1, keys[i] + 1, 3) == 0 && values[i][0] == (i % 2 == 0 ? 'v' : 'w'));
  }
}

/* More operations than its depth, updates of one key in their order, reads after them. */
static void test_session(bonsai_t* db) {
  char keys[100][8], firsts[100][8], seconds[100][8];
  bonsai_result_t results[200];
  size_t i;
  int seen = 0;
  uint64_t count = 0;
  char* err = NULL;
  bonsai_session_t* session = NULL;
  EXPECT(bonsai_session_create(db, 0, &session, &err) == BONSAI_INVALID_ARGUMENT && session == NULL && err != NULL);
  EXPECT(bonsai_session_create(db, BONSAI_SESSION_DEPTH_MAX + 1, &session, NULL) == BONSAI_INVALID_ARGUMENT);
  EXPECT(bonsai_session_create(db, 32, &session, &err) == BONSAI_OK && session != NULL);
  for (i = 0; i < 100; ++i) {
    sprintf(keys[i], "n%03u", (unsigned)i);
    sprintf(firsts[i], "v%03u", (unsigned)i);
    sprintf(seconds[i], "w%03u", (unsigned)i);
    bonsai_session_put(session, keys[i], 4, firsts[i], 4, &results[2 * i]);
    EXPECT(results[2 * i].code == BONSAI_IN_FLIGHT);
    if (i % 2 == 1) bonsai_session_put(session, keys[i], 4, seconds[i], 4, NULL);
  }
  EXPECT(bonsai_session_in_flight(session) > 0 && bonsai_session_in_flight(session) <= 32);
  expect_in_order(session, 100);
  for (i = 0; i < 100; ++i) EXPECT(results[2 * i].code == BONSAI_OK);

  bonsai_session_scan(session, NULL, "b", 1, "e", 1, UINT64_MAX, count_two, &seen, &results[0]);
  for (i = 0; i < 100; ++i) bonsai_session_delete(session, keys[i], 4, &results[i + 1]);
  EXPECT(bonsai_session_wait(session, NULL) == BONSAI_OK && results[0].code == BONSAI_OK && seen == 2);
  EXPECT(bonsai_count(db, NULL, "n", 1, "o", 1, UINT64_MAX, &count, NULL) == BONSAI_OK && count == 0);
  EXPECT(bonsai_close(db, NULL) == BONSAI_BUSY);
  bonsai_free(err);
  bonsai_session_destroy(session);
}

static void test_failures_in_session(bonsai_t* db) {
  char buffer[2];
  char* err = NULL;
  bonsai_result_t results[6];
  bonsai_session_t* session = NULL;
  EXPECT(put(db, "wide", "12345") == BONSAI_OK);
  EXPECT(bonsai_session_create(db, 8, &session, NULL) == BONSAI_OK);
  bonsai_session_get(session, "absent", 6, buffer, sizeof buffer, &results[0]);
  EXPECT(bonsai_session_wait(session, &err) == BONSAI_OK && err == NULL);
  EXPECT(results[0].code == BONSAI_NOT_FOUND && results[0].value_bytes == 0);
  bonsai_session_get(session, "wide", 4, buffer, sizeof buffer, &results[0]);
  bonsai_session_get(session, "b", 1, buffer, sizeof buffer, &results[1]);
  bonsai_session_put(session, NULL, 3, "v", 1, &results[2]);
  bonsai_session_put(session, "", 0, "v", 1, &results[3]);
  bonsai_session_scan(session, NULL, NULL, 0, NULL, 0, 1, NULL, NULL, &results[4]);
  bonsai_session_get(session, "wide", 4, NULL, 0, &results[5]);
  EXPECT(results[2].code == BONSAI_INVALID_ARGUMENT); /* at once */
  EXPECT(bonsai_session_wait(session, &err) == BONSAI_INVALID_ARGUMENT && err != NULL);
  EXPECT(results[0].code == BONSAI_INVALID_ARGUMENT && results[0].value_bytes == 5);
  EXPECT(results[1].code == BONSAI_OK && results[1].value_bytes == 1 && buffer[0] == '2');
  EXPECT(results[3].code == BONSAI_INVALID_ARGUMENT);
  EXPECT(results[4].code == BONSAI_INVALID_ARGUMENT);
  EXPECT(results[5].code == BONSAI_INVALID_ARGUMENT && results[5].value_bytes == 5);
  EXPECT(bonsai_session_wait(session, NULL) == BONSAI_OK); /* reported once */
  bonsai_session_delete(session, "wide", 4, NULL);
  bonsai_session_destroy(session); /* waits */
  bonsai_session_destroy(NULL);
  EXPECT(bonsai_exists(db, NULL, "wide", 4, NULL) == BONSAI_NOT_FOUND);
  bonsai_free(err);
}

static void test_snapshot_and_iterator(bonsai_t* db) {
  char* err = NULL;
  size_t bytes = 0;
  bonsai_snapshot_t* snapshot = NULL;
  bonsai_readoptions_t* options = bonsai_readoptions_create();
  bonsai_iterator_t* iterator;
  EXPECT(bonsai_snapshot_create(db, &snapshot, &err) == BONSAI_OK);
  bonsai_readoptions_set_snapshot(options, snapshot);
  EXPECT(put(db, "c", "later") == BONSAI_OK);
  EXPECT(holds(db, options, "c", "3"));
  EXPECT(holds(db, NULL, "c", "later"));

  iterator = bonsai_iter_create(db, options);
  EXPECT(!bonsai_iter_valid(iterator));
  bonsai_iter_seek(iterator, "bb", 2);
  EXPECT(bonsai_iter_valid(iterator) && bonsai_iter_key(iterator, &bytes)[0] == 'c' && bytes == 1);
  EXPECT(bonsai_iter_value(iterator, &bytes)[0] == '3');
  bonsai_iter_prev(iterator);
  EXPECT(bonsai_iter_valid(iterator) && bonsai_iter_key(iterator, &bytes)[0] == 'b');
  bonsai_iter_seek_to_last(iterator);
  EXPECT(bonsai_iter_valid(iterator) && bonsai_iter_key(iterator, &bytes)[0] == 'd');
  bonsai_iter_next(iterator);
  EXPECT(!bonsai_iter_valid(iterator));
  bonsai_iter_seek_after(iterator, "b", 1);
  EXPECT(bonsai_iter_valid(iterator) && bonsai_iter_key(iterator, &bytes)[0] == 'c');
  bonsai_iter_seek_before(iterator, "c", 1);
  EXPECT(bonsai_iter_valid(iterator) && bonsai_iter_key(iterator, &bytes)[0] == 'b');
  EXPECT(bonsai_iter_status(iterator, &err) == BONSAI_OK && err == NULL);

  EXPECT(bonsai_close(db, &err) == BONSAI_BUSY); /* and the store stays open */
  EXPECT(err != NULL && strstr(err, "1 snapshots, 1 iterators, 0 sessions") != NULL);
  bonsai_free(err);
  bonsai_iter_destroy(iterator);
  bonsai_readoptions_destroy(options);
  bonsai_snapshot_release(snapshot);
}

static void test_stats(bonsai_t* db) {
  uint64_t puts = 0;
  char* text = NULL;
  bonsai_stats_t* stats = bonsai_stats_create(db);
  EXPECT(bonsai_stats_find(stats, "puts", &puts) == BONSAI_OK && puts >= 5);
  EXPECT(bonsai_stats_find(stats, "no_such_counter", &puts) == BONSAI_NOT_FOUND);
  EXPECT(bonsai_stats_name(stats, bonsai_stats_count(stats)) == NULL);
  EXPECT(strlen(bonsai_stats_medium(stats)) > 0);
  EXPECT(bonsai_stats_key_format(stats) == BONSAI_KEY_BYTES);
  bonsai_stats_destroy(stats);
  EXPECT(bonsai_describe_groups(db, &text, NULL) == BONSAI_OK && strcmp(text, "") == 0);
  bonsai_free(text);
}

static void test_check(const char* path) {
  char* err = NULL;
  char* text = NULL;
  uint64_t targets = 0;
  bonsai_check_report_t* report = NULL;
  EXPECT(bonsai_check(path, NULL, NULL, &report, &err) == BONSAI_OK);
  if (err != NULL) fprintf(stderr, "%s\n", err);
  if (report != NULL) {
    EXPECT(bonsai_check_report_damages(report) == 0);
    EXPECT(bonsai_check_report_clean(report));
    EXPECT(bonsai_check_report_find(report, "targets", &targets) == BONSAI_OK && targets == 1);
    EXPECT(bonsai_check_report_where(report, 0) == NULL);
  }
  bonsai_check_report_destroy(report);
  EXPECT(bonsai_describe_medium(path, &text, &err) == BONSAI_OK && text != NULL);
  bonsai_free(text);
}

static void test_store(const char* path) {
  char* err = NULL;
  bonsai_t* db = NULL;
  bonsai_options_t* options = bonsai_options_create();
  EXPECT(bonsai_open(options, path, &db, &err) == BONSAI_IO_ERROR); /* missing, and not to be created */
  EXPECT(db == NULL && err != NULL);
  bonsai_options_set_create_if_missing(options, 1);
  bonsai_options_set_pool_bytes(options, 8 << 20);
  EXPECT(bonsai_open(options, path, &db, &err) == BONSAI_OK);
  if (db != NULL) {
    test_updates_and_batch(db);
    EXPECT(put(db, "c", "3") == BONSAI_OK);
    EXPECT(put(db, "d", "4") == BONSAI_OK);
    test_reads(db);
    test_exists_and_count(db);
    test_delete_range(db);
    test_session(db);
    test_failures_in_session(db);
    test_snapshot_and_iterator(db);
    test_stats(db);
    EXPECT(bonsai_close(db, NULL) == BONSAI_OK);
    test_check(path);
    EXPECT(bonsai_open(NULL, path, &db, NULL) == BONSAI_OK); /* NULL options are the defaults */
    EXPECT(holds(db, NULL, "c", "later"));
    EXPECT(bonsai_close(db, NULL) == BONSAI_OK);
  }
  bonsai_free(err);
  bonsai_options_destroy(options);
}

int main(void) {
  char folder[] = "/tmp/bonsai-c-api-XXXXXX";
  char path[sizeof folder + 8];
  test_version();
  if (mkdtemp(folder) == NULL) {
    perror("mkdtemp");
    return 1;
  }
  snprintf(path, sizeof path, "%s/pool", folder);
  test_store(path);
  unlink(path);
  rmdir(folder);
  if (failures == 0) puts("the C interface keeps its contract");
  return failures == 0 ? 0 : 1;
}
