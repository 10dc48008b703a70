/* mrguard: RDMA memory registration with owners. Include this one. */
#ifndef MRGUARD_MRGUARD_H
#define MRGUARD_MRGUARD_H

#define MRGUARD_VERSION_MAJOR 0
#define MRGUARD_VERSION_MINOR 1

#include <mrguard/cm.h>
#include <mrguard/ibv.h>
#include <mrguard/report.h>
#include <mrguard/verbs.h>
/* last: from here on the calls carry their site */
#include <mrguard/site.h>

#endif
