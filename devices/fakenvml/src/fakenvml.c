/* A libnvidia-ml.so.1 without a GPU, for tests. It is driven by the text file that $FAKE_NVML names and
 * looks at it on every call, so a test changes the machine by renaming a new file over it. Lines are words of
 * KEY=VALUE after a first word; name= takes the rest of the line:
 *
 *   driver VERSION
 *   init CODE                       nvmlInit returns CODE
 *   count CODE                      nvmlDeviceGetCount returns CODE
 *   delay MS                        every query of a GPU's memory takes so long
 *   gpu  uuid= bus= total= reserved= used= mig=0|1|none mode= util= temp= power= limit= fail=CALL:CODE,... hang=CALL
 *        name=                     util in %, temp in degrees C, power and its limit in mW; not supported without a value
 *   mig  parent= uuid= gi= ci= total= reserved= used= fail=
 *   proc gpu=N|mig=N pid= bytes=N|none kind=compute|graphics|mps
 *
 * CALL is one of handle, uuid, name, bus, memory, mode, mig, procs, ids, instances, util, temp, power.
 * Compiled with -DOLD it is a driver of before R510: no v2 memory, no MIG, no MPS; with -DANCIENT it also lacks
 * every versioned name. A call before a good nvmlInit, which a real system punishes, aborts here.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#ifdef ANCIENT
#define OLD
#endif

enum { OK = 0, INVALID = 2, UNSUPPORTED = 3, NOTFOUND = 6, TOOSMALL = 7, WRONGVERSION = 25 };
enum { MAXGPU = 64, MAXMIG = 64, MAXPROC = 256 };
typedef unsigned long long u64;

struct part {
	char uuid[96], bus[32], name[96], fail[200], hang[32];
	u64 total, reserved, used;
	int mig, mode, parent, gi, ci, util, temp, power, limit; /* the last four -1 where they are not supported */
};
struct proc { int gpu, mig, pid; u64 bytes; char kind[16]; };
struct machine {
	char driver[80];
	int init, count, delay, gpus, migs, procs;
	struct part g[MAXGPU], m[MAXMIG];
	struct proc p[MAXPROC];
};

static __thread struct machine M;
static __thread struct stat seen;
static int ready;

/* field finds KEY= in a line and copies its value, to the next space or, of name=, to the end. */
static int field(const char *line, const char *key, char *to, size_t n)
{
	size_t k = strlen(key);
	for (const char *s = line; (s = strstr(s, key)); s++) {
		if (s[-1] != ' ' || s[k] != '=')
			continue;
		s += k + 1;
		size_t len = strcspn(s, strcmp(key, "name") ? " \n" : "\n");
		if (len >= n)
			len = n - 1;
		memcpy(to, s, len);
		to[len] = 0;
		return 1;
	}
	return 0;
}

static u64 number(const char *line, const char *key, u64 otherwise)
{
	char b[40];
	if (!field(line, key, b, sizeof b))
		return otherwise;
	return strcmp(b, "none") ? strtoull(b, 0, 10) : ~0ull;
}

static void part(const char *l, struct part *x)
{
	memset(x, 0, sizeof *x);
	field(l, "uuid", x->uuid, sizeof x->uuid);
	field(l, "bus", x->bus, sizeof x->bus);
	field(l, "name", x->name, sizeof x->name);
	field(l, "fail", x->fail, sizeof x->fail);
	field(l, "hang", x->hang, sizeof x->hang);
	x->total = number(l, "total", 0);
	x->reserved = number(l, "reserved", 0);
	x->used = number(l, "used", 0);
	x->mig = (int)number(l, "mig", ~0ull);
	x->mode = (int)number(l, "mode", 0);
	x->parent = (int)number(l, "parent", 0);
	x->gi = (int)number(l, "gi", 0);
	x->ci = (int)number(l, "ci", 0);
	x->util = (int)number(l, "util", ~0ull);
	x->temp = (int)number(l, "temp", ~0ull);
	x->power = (int)number(l, "power", ~0ull);
	x->limit = (int)number(l, "limit", ~0ull);
}

static void look(void)
{
	const char *path = getenv("FAKE_NVML");
	struct stat st;
	if (!path || stat(path, &st))
		return;
	if (st.st_ino == seen.st_ino && st.st_size == seen.st_size && st.st_mtim.tv_sec == seen.st_mtim.tv_sec && st.st_mtim.tv_nsec == seen.st_mtim.tv_nsec)
		return;
	FILE *f = fopen(path, "r");
	if (!f)
		return;
	seen = st;
	memset(&M, 0, sizeof M);
	strcpy(M.driver, "580.95.05");
	char l[600];
	while (fgets(l, sizeof l, f)) {
		if (sscanf(l, "driver %79s", M.driver) == 1 || sscanf(l, "init %d", &M.init) == 1 || sscanf(l, "count %d", &M.count) == 1 || sscanf(l, "delay %d", &M.delay) == 1)
			continue;
		if (!strncmp(l, "gpu ", 4) && M.gpus < MAXGPU)
			part(l, &M.g[M.gpus++]);
		else if (!strncmp(l, "mig ", 4) && M.migs < MAXMIG)
			part(l, &M.m[M.migs++]);
		else if (!strncmp(l, "proc ", 5) && M.procs < MAXPROC) {
			struct proc *p = &M.p[M.procs++];
			p->gpu = (int)number(l, "gpu", ~0ull);
			p->mig = (int)number(l, "mig", ~0ull);
			p->pid = (int)number(l, "pid", 0);
			p->bytes = number(l, "bytes", 0);
			if (!field(l, "kind", p->kind, sizeof p->kind))
				strcpy(p->kind, "compute");
		}
	}
	fclose(f);
}

/* Handles are 1.. for GPUs and 0x1000.. for MIG instances. */
static struct part *at(void *h, const char *call, int *code)
{
	if (!ready) {
		fprintf(stderr, "fake NVML: %s without a good nvmlInit\n", call);
		abort();
	}
	look();
	size_t i = (size_t)h;
	struct part *x = i >= 1 && i <= (size_t)M.gpus ? &M.g[i - 1] : i >= 0x1000 && i < 0x1000 + (size_t)M.migs ? &M.m[i - 0x1000] : 0;
	*code = x ? OK : INVALID;
	if (!x)
		return 0;
	while (!strcmp(x->hang, call)) {
		usleep(20000);
		look();
	}
	if (M.delay && !strcmp(call, "memory"))
		usleep(1000u * (unsigned)M.delay);
	char want[40];
	snprintf(want, sizeof want, "%s:", call);
	char *f = strstr(x->fail, want);
	if (f)
		*code = atoi(f + strlen(want));
	return *code == OK ? x : 0;
}
#define PART(x, h, call) int code; struct part *x = at(h, call, &code); if (!x) return code

static int put(char *to, unsigned n, const char *from)
{
	if (strlen(from) + 1 > n)
		return TOOSMALL;
	strcpy(to, from);
	return OK;
}

static int init(void)
{
	look();
	ready = M.init == OK;
	return M.init;
}

static int count(unsigned *n)
{
	int code;
	if (!ready)
		at(0, "count", &code);
	look();
	*n = (unsigned)M.gpus;
	return M.count;
}

static int handle(unsigned i, void **h)
{
	PART(g, (void *)(size_t)(i + 1), "handle");
	(void)g;
	*h = (void *)(size_t)(i + 1);
	return OK;
}

typedef struct { char legacy[16]; unsigned domain, bus, device, id, subsystem; char busId[32]; } pci_t;
typedef struct { char busId[16]; unsigned domain, bus, device, id, subsystem, r[4]; } oldpci_t;
typedef struct { unsigned pid; u64 bytes; unsigned gi, ci; } info_t;
typedef struct { unsigned pid; u64 bytes; } oldinfo_t;

static int procs(void *h, const char *kind, unsigned *n, void *to, int old)
{
	PART(x, h, "procs");
	(void)x;
	size_t i = (size_t)h;
	unsigned k = 0;
	for (int j = 0; j < M.procs; j++) {
		struct proc *p = &M.p[j];
		if (strcmp(p->kind, kind) || !(p->gpu == (int)i - 1 || p->mig == (int)i - 0x1000))
			continue;
		if (k < *n && to && old)
			((oldinfo_t *)to)[k] = (oldinfo_t){(unsigned)p->pid, p->bytes};
		else if (k < *n && to)
			((info_t *)to)[k] = (info_t){(unsigned)p->pid, p->bytes, ~0u, ~0u};
		k++;
	}
	int code2 = k > *n ? TOOSMALL : OK;
	*n = k;
	return code2;
}

#ifdef ANCIENT
int nvmlInit(void) { return init(); }
int nvmlDeviceGetCount(unsigned *n) { return count(n); }
int nvmlDeviceGetHandleByIndex(unsigned i, void **h) { return handle(i, h); }
int nvmlDeviceGetPciInfo(void *h, oldpci_t *p)
{
	PART(x, h, "bus");
	memset(p, 0, sizeof *p);
	return put(p->busId, sizeof p->busId, strlen(x->bus) > 12 ? x->bus + 4 : x->bus); /* its domain has 4 digits */
}
int nvmlDeviceGetComputeRunningProcesses(void *h, unsigned *n, void *to) { return procs(h, "compute", n, to, 1); }
#else
int nvmlInit_v2(void) { return init(); }
int nvmlInitWithFlags(unsigned flags) { (void)flags; return init(); }
int nvmlDeviceGetHandleByUUID(const char *uuid, void **h)
{
	look();
	for (int i = 0; i < M.gpus; i++)
		if (!strcmp(M.g[i].uuid, uuid))
			return handle((unsigned)i, h);
	for (int i = 0; i < M.migs; i++)
		if (!strcmp(M.m[i].uuid, uuid)) {
			*h = (void *)(size_t)(0x1000 + i);
			return OK;
		}
	return NOTFOUND;
}
static int measure(int value, unsigned *to)
{
	if (value < 0)
		return UNSUPPORTED;
	*to = (unsigned)value;
	return OK;
}
int nvmlDeviceGetUtilizationRates(void *h, unsigned *u) { PART(x, h, "util"); u[1] = 0; return measure(x->util, u); }
int nvmlDeviceGetTemperature(void *h, int sensor, unsigned *t)
{
	PART(x, h, "temp");
	return sensor ? INVALID : measure(x->temp, t);
}
int nvmlDeviceGetPowerUsage(void *h, unsigned *mw) { PART(x, h, "power"); return measure(x->power, mw); }
int nvmlDeviceGetEnforcedPowerLimit(void *h, unsigned *mw) { PART(x, h, "power"); return measure(x->limit, mw); }
int nvmlDeviceGetCount_v2(unsigned *n) { return count(n); }
int nvmlDeviceGetHandleByIndex_v2(unsigned i, void **h) { return handle(i, h); }
int nvmlDeviceGetPciInfo_v3(void *h, pci_t *p)
{
	PART(x, h, "bus");
	memset(p, 0, sizeof *p);
	return put(p->busId, sizeof p->busId, x->bus);
}
int nvmlDeviceGetComputeRunningProcesses_v3(void *h, unsigned *n, void *to) { return procs(h, "compute", n, to, 0); }
int nvmlDeviceGetGraphicsRunningProcesses_v3(void *h, unsigned *n, void *to) { return procs(h, "graphics", n, to, 0); }
#endif
int nvmlShutdown(void) { ready = 0; return OK; }
int nvmlSystemGetDriverVersion(char *b, unsigned n) { look(); return put(b, n, M.driver); }
int nvmlDeviceGetUUID(void *h, char *b, unsigned n) { PART(x, h, "uuid"); return put(b, n, x->uuid); }
int nvmlDeviceGetName(void *h, char *b, unsigned n)
{
	PART(x, h, "name");
	return put(b, n, *x->name ? x->name : M.g[x->parent].name);
}
int nvmlDeviceGetMemoryInfo(void *h, u64 *m)
{
	PART(x, h, "memory");
	m[0] = x->total;
	m[1] = x->total - x->used - x->reserved;
	m[2] = x->used + x->reserved;
	return OK;
}
#ifndef ANCIENT
int nvmlDeviceGetComputeMode(void *h, unsigned *m)
{
	PART(x, h, "mode");
	if ((size_t)h >= 0x1000)
		return INVALID;
	*m = (unsigned)x->mode;
	return OK;
}
#endif
#ifndef OLD
struct memory2 { unsigned version; u64 total, reserved, free, used; };
int nvmlDeviceGetMemoryInfo_v2(void *h, struct memory2 *m)
{
	if (m->version != (sizeof *m | 2u << 24))
		return WRONGVERSION;
	PART(x, h, "memory");
	m->total = x->total;
	m->reserved = x->reserved;
	m->free = x->total - x->used - x->reserved;
	m->used = x->used;
	return OK;
}
int nvmlDeviceGetMPSComputeRunningProcesses_v3(void *h, unsigned *n, void *to) { return procs(h, "mps", n, to, 0); }
int nvmlDeviceGetMigMode(void *h, unsigned *now, unsigned *next)
{
	PART(x, h, "mig");
	if (x->mig < 0)
		return UNSUPPORTED;
	*now = *next = (unsigned)x->mig;
	return OK;
}
int nvmlDeviceGetMaxMigDeviceCount(void *h, unsigned *n)
{
	PART(x, h, "instances");
	*n = x->mig == 1 ? 7 : 0;
	return OK;
}
/* Every other number is a hole, as it is after instances were destroyed. */
int nvmlDeviceGetMigDeviceHandleByIndex(void *h, unsigned i, void **to)
{
	PART(x, h, "instances");
	(void)x;
	unsigned k = 0;
	for (int j = 0; j < M.migs; j++)
		if (M.m[j].parent == (int)(size_t)h - 1 && 2 * k++ == i) {
			*to = (void *)(size_t)(0x1000 + j);
			return OK;
		}
	return NOTFOUND;
}
int nvmlDeviceGetGpuInstanceId(void *h, unsigned *i) { PART(x, h, "ids"); *i = (unsigned)x->gi; return OK; }
int nvmlDeviceGetComputeInstanceId(void *h, unsigned *i) { PART(x, h, "ids"); *i = (unsigned)x->ci; return OK; }
#endif
