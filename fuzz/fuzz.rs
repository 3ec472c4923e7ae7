//! The program for libFuzzer: runs the target of the variable `LUCARNE_FUZZ_TARGET`.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;

static TARGET: LazyLock<fn(&[u8])> = LazyLock::new(|| {
    let name = std::env::var("LUCARNE_FUZZ_TARGET").expect("LUCARNE_FUZZ_TARGET names a target");
    lucarne_fuzz::target(&name).expect("a target of fuzz/lib.rs")
});

fuzz_target!(|input: &[u8]| TARGET(input));
