//! A CCADB report gives roots, or says what is wrong with it.
#![no_main]

use libfuzzer_sys::fuzz_target;
use lucarne_ct::{CcadbProgramme, Roots};

fuzz_target!(|report: &[u8]| {
    for programme in [CcadbProgramme::Trusted, CcadbProgramme::Testing] {
        let _ = Roots::from_ccadb_csv(report, programme);
    }
});
