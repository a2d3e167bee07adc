/* A FAKE libnvidia-ml.so.1: answers the calls that ma_boot makes through pynvml with the values in the file that
 * FAKE_NVML names, read at each call. Lines `NAME VALUE` hold for all GPUs, `INDEX.NAME VALUE` for one; a value
 * `lost`, `unsupported` or `hang` replaces the answer. Values are those of a recorded H100 where the test gives none. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { OK = 0, UNSUPPORTED = 3, NOT_FOUND = 6, INSUFFICIENT = 7, TIMEOUT = 10, LOST = 15 };
static int handles[64];
static int taken;

static int find(int index, const char *name, long long *value) {
    char line[256], own[64], key[64], text[128];
    int status = -1;
    const char *path = getenv("FAKE_NVML");
    FILE *file = path ? fopen(path, "r") : NULL;
    if (!file) return -1;
    snprintf(own, sizeof own, "%d.%s", index, name);
    while (fgets(line, sizeof line, file)) {
        if (sscanf(line, "%63s %127s", key, text) != 2) continue;
        if (strcmp(key, own) && strcmp(key, name)) continue;
        if (!strcmp(text, "hang")) { fclose(file); for (;;) pause(); }
        status = !strcmp(text, "lost") ? LOST : !strcmp(text, "unsupported") ? UNSUPPORTED : OK;
        *value = atoll(text);
        if (!strcmp(key, own)) break;
    }
    fclose(file);
    return status;
}
static int get(int index, const char *name, long long usual, long long *value) {
    int status = find(index, name, value);
    if (status == -1) { *value = usual; return OK; }
    return status;
}
static int whole(void *device, const char *name, unsigned usual, unsigned *value) {
    long long found = 0;
    int status = get(*(int *)device, name, usual, &found);
    *value = (unsigned)found;
    return status;
}

int nvmlInitWithFlags(unsigned flags) { long long v; (void)flags; return get(0, "init", 0, &v); }
int nvmlShutdown(void) { return OK; }
const char *nvmlErrorString(int code) { (void)code; return "an error of the fake"; }
int nvmlSystemGetDriverVersion(char *text, unsigned size) { snprintf(text, size, "580.159.03"); return OK; }
int nvmlSystemGetCudaDriverVersion(int *version) {
    long long v; int status = get(0, "cuda", 13000, &v); *version = (int)v; return status;
}
int nvmlDeviceGetCount_v2(unsigned *count) {
    long long v; int status = get(0, "count", 1, &v); *count = (unsigned)v; return status;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device) {
    long long v; handles[index] = (int)index; *device = &handles[index];
    return get((int)index, "handle", 0, &v);
}
int nvmlDeviceGetName(void *device, char *text, unsigned size) {
    (void)device; snprintf(text, size, "NVIDIA H100 80GB HBM3"); return OK;
}
int nvmlDeviceGetUtilizationRates(void *device, unsigned *rates) {
    int status = whole(device, "utilisation", 100, &rates[0]);
    return status ? status : whole(device, "memory_activity", 42, &rates[1]);
}
int nvmlDeviceGetMemoryInfo(void *device, unsigned long long *memory) {
    long long used = 0; int status = get(*(int *)device, "memory", 5107LL << 20, &used);
    memory[0] = 81559ULL << 20; memory[2] = (unsigned long long)used; memory[1] = memory[0] - memory[2];
    return status;
}
int nvmlDeviceGetPowerUsage(void *device, unsigned *power) { return whole(device, "power", 688000, power); }
int nvmlDeviceGetTemperature(void *device, unsigned sensor, unsigned *heat) {
    (void)sensor; return whole(device, "temperature", 65, heat);
}
int nvmlDeviceGetClockInfo(void *device, unsigned type, unsigned *clock) {
    (void)type; return whole(device, "clock", 1755, clock);
}
int nvmlDeviceGetCurrentClocksEventReasons(void *device, unsigned long long *reasons) {
    long long v; int status = get(*(int *)device, "reasons", 4, &v); *reasons = (unsigned long long)v; return status;
}
int nvmlDeviceGetCurrPcieLinkGeneration(void *device, unsigned *value) { return whole(device, "gen", 5, value); }
int nvmlDeviceGetCurrPcieLinkWidth(void *device, unsigned *value) { return whole(device, "width", 16, value); }
int nvmlDeviceGetNvLinkState(void *device, unsigned link, unsigned *state) {
    unsigned links, up; whole(device, "links", 18, &links); whole(device, "up", links, &up);
    *state = link < up; return link < links ? OK : UNSUPPORTED;
}
int nvmlDeviceGetTotalEccErrors(void *device, int type, int counter, unsigned long long *errors) {
    long long v; int status = get(*(int *)device, "ecc", 0, &v);
    (void)type; (void)counter; *errors = (unsigned long long)v; return status;
}
int nvmlDeviceGetRemappedRows(void *device, unsigned *corr, unsigned *unc, unsigned *pending, unsigned *failure) {
    *corr = 0; whole(device, "pending", 0, pending); whole(device, "failure", 0, failure);
    return whole(device, "remapped", 0, unc);
}
struct field { unsigned id, scope; long long when, latency; unsigned type; int status; unsigned long long value; };
int nvmlDeviceGetFieldValues(void *device, int count, struct field *fields) {
    unsigned v = 0; (void)count;
    fields[0].status = whole(device, "recovery", 0, &v); fields[0].value = v; return OK;
}
struct process { unsigned pid; unsigned long long memory; unsigned gpu, compute; };
int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned *count, struct process *list) {
    unsigned pid = 0, room = *count;
    int status = whole(device, "pid", 0, &pid);
    if (status || !pid) { *count = 0; return status; }
    *count = 1;
    if (!list || !room) return INSUFFICIENT;
    list[0].pid = pid; list[0].memory = 1 << 20; return OK;
}
int nvmlEventSetCreate(void **set) { *set = &taken; return OK; }
int nvmlDeviceRegisterEvents(void *device, unsigned long long types, void *set) {
    (void)device; (void)types; (void)set; return OK;
}
struct event { void *device; unsigned long long type, data; unsigned gpu, compute; };
int nvmlEventSetWait_v2(void *set, struct event *event, unsigned milliseconds) {
    long long xid = 0, count = 1; (void)set; (void)milliseconds;
    get(0, "count", 1, &count);
    for (int index = 0; index < count; index++) {
        if (get(index, "xid", 0, &xid) || !xid || taken & 1 << index) continue;
        taken |= 1 << index;
        event->device = &handles[index]; event->type = 8; event->data = (unsigned long long)xid;
        return OK;
    }
    return TIMEOUT;
}
