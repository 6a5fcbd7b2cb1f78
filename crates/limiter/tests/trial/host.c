// A program that loads and unloads a library that is linked to the driver, over and over, and prints what the library counted.
#include <dlfcn.h>
#include <stdio.h>

int main(void) {
    for (int turn = 0; turn < 5; turn++) {
        void *library = dlopen("libuser.so", RTLD_NOW);
        int (*take_all)(void) = library ? (int (*)(void))dlsym(library, "take_all") : NULL;
        if (!take_all) { fprintf(stderr, "%s\n", dlerror()); return 1; }
        printf("%d\n", take_all());
        dlclose(library);
    }
    return 0;
}
