//! A CCADB report parses to roots, or to an error.
#![no_main]

use libfuzzer_sys::fuzz_target;
use lucarne_ct::CcadbProgramme;

fuzz_target!(|report: &[u8]| {
    for programme in [CcadbProgramme::Trusted, CcadbProgramme::Testing] {
        let _ = programme.roots(report);
    }
});
