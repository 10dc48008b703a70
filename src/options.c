#include "options.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WORD_MAX 512

static struct options parsed;
static pthread_once_t parsed_once = PTHREAD_ONCE_INIT;

static bool parse_policy(struct options *o, const char *value)
{
    if (!strcmp(value, "refuse"))
        o->policy = POLICY_REFUSE;
    else if (!strcmp(value, "abort"))
        o->policy = POLICY_ABORT;
    else if (!strcmp(value, "observe"))
        o->policy = POLICY_OBSERVE;
    else
        return false;
    return true;
}

static bool parse_output(struct options *o, const char *value)
{
    if (!strcmp(value, "stderr")) {
        o->output = STDERR_FILENO;
        return true;
    }
    /* O_NONBLOCK: a FIFO that nobody reads is refused, not waited for. */
    int fd = *value ? open(value, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0666) : -1;
    if (fd >= 0)
        o->output = fd;
    return fd >= 0;
}

static bool parse_exitcode(struct options *o, const char *value)
{
    char *end;
    long code = strtol(value, &end, 10);
    if (end == value || *end || code < 0 || code > 255)
        return false;
    o->exitcode = (int)code;
    return true;
}

static bool parse_help(struct options *o, const char *value)
{
    if (strcmp(value, "0") && strcmp(value, "1"))
        return false;
    o->help = *value == '1';
    return true;
}

static const struct option {
    const char *name;
    bool (*parse)(struct options *, const char *value);
    const char *values;
    const char *initial;
    const char *help;
} option_table[] = {
#define OPTION(name, parser, values, initial, help) {#name, parser, values, initial, help},
#include "options.def"
#undef OPTION
};
#define OPTION_COUNT (sizeof option_table / sizeof *option_table)

static bool parse_word(struct options *o, char *word)
{
    char *value = strchr(word, '=');
    if (!value)
        return false;
    *value++ = '\0';
    for (size_t i = 0; i < OPTION_COUNT; i++)
        if (!strcmp(option_table[i].name, word))
            return option_table[i].parse(o, value);
    return false;
}

static bool parse_span(struct options *o, const char *span, size_t length)
{
    char word[WORD_MAX];
    if (length < sizeof word) {
        memcpy(word, span, length);
        word[length] = '\0';
        if (parse_word(o, word))
            return true;
    }
    fprintf(stderr, "mrguard: MRGUARD_OPTIONS: cannot use \"%.*s\"; MRGUARD_OPTIONS=help=1 lists what there is\n",
            (int)length, span);
    return false;
}

int options_parse(struct options *ret, const char *text)
{
    *ret = (struct options){.policy = POLICY_REFUSE, .output = STDERR_FILENO};
    int bad = 0;
    while (*text) {
        size_t length = strcspn(text, ",");
        if (length && !parse_span(ret, text, length))
            bad++;
        text += length + (text[length] == ',');
    }
    return bad;
}

static void print_help(void)
{
    fprintf(stderr, "MRGUARD_OPTIONS=name=value,name=value...\n");
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        const struct option *o = &option_table[i];
        fprintf(stderr, "  %s=%s\n      %s (default %s)\n", o->name, o->values, o->help, o->initial);
    }
}

static void parse_environment(void)
{
    const char *text = secure_getenv("MRGUARD_OPTIONS");
    options_parse(&parsed, text ? text : "");
    if (parsed.help)
        print_help();
}

const struct options *options(void)
{
    pthread_once(&parsed_once, parse_environment);
    return &parsed;
}
