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
  EXPECT(bonsai_iter_status(iterator, &err) == BONSAI_OK && err == NULL);

  EXPECT(bonsai_close(db, &err) == BONSAI_BUSY); /* and the store stays open */
  EXPECT(err != NULL && strstr(err, "2 iterators or snapshots") != NULL);
  bonsai_free(err);
  bonsai_iter_destroy(iterator);
  bonsai_readoptions_destroy(options);
  bonsai_snapshot_release(snapshot);
}

static void test_stats(bonsai_t* db) {
  uint64_t puts = 0;
  bonsai_stats_t* stats = bonsai_stats_create(db);
  EXPECT(bonsai_stats_find(stats, "puts", &puts) == BONSAI_OK && puts >= 5);
  EXPECT(bonsai_stats_find(stats, "no_such_counter", &puts) == BONSAI_NOT_FOUND);
  EXPECT(bonsai_stats_name(stats, bonsai_stats_count(stats)) == NULL);
  EXPECT(strlen(bonsai_stats_medium(stats)) > 0);
  EXPECT(bonsai_stats_key_format(stats) == BONSAI_KEY_BYTES);
  bonsai_stats_destroy(stats);
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
