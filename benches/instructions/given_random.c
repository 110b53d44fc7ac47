/* Replaces the kernel's randomness by the same bytes in each run, so that hashes have the same seeds
   and tables the same collisions. */

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* SplitMix64 */
ssize_t getrandom(void *buffer, size_t length, unsigned int flags) {
    static uint64_t state;
    (void)flags;
    for (size_t at = 0; at < length; at++) {
        uint64_t mixed = state += 0x9e3779b97f4a7c15;
        mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9;
        mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111eb;
        ((unsigned char *)buffer)[at] = (unsigned char)(mixed ^ (mixed >> 31));
    }
    return (ssize_t)length;
}
