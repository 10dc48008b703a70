/*
 * How a public function is defined:
 *
 *     API(int, mrg_dereg_mr, (mrg_mr *mr), (mr))
 *     {
 *         ... HERE ...
 *     }
 *
 * defines mrg_dereg_mr, which records its return address, and opens the body of mrg_dereg_mr_at, which is
 * given its site. HERE is what a finding needs to know of the call; it costs nothing where none is made.
 */
#ifndef MRG_API_H
#define MRG_API_H

#include <mrguard/cm.h>
#include <mrguard/ibv.h>
#include <mrguard/report.h>
#include <mrguard/site.h>
#include <mrguard/verbs.h>

#include "finding.h"

#define API_LIST(...) __VA_ARGS__
#define API_SITE site_of_address(__builtin_return_address(0))

#define API(type, name, parameters, arguments)          \
    type(name) parameters                               \
    {                                                   \
        return name##_at(API_SITE, API_LIST arguments); \
    }                                                   \
    type name##_at(const char *site, API_LIST parameters)

/* For a function without parameters. */
#define API_VOID(type, name)        \
    type(name)(void)                \
    {                               \
        return name##_at(API_SITE); \
    }                               \
    type name##_at(const char *site)

#define HERE (&(struct here){site, __func__})

#endif
