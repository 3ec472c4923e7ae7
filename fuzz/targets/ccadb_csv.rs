//! A CCADB report parses to roots, or to an error.

use lucarne_ct::CcadbProgramme;

pub(crate) fn run(report: &[u8]) {
    for programme in [CcadbProgramme::Trusted, CcadbProgramme::Testing] {
        let _ = programme.roots(report);
    }
}
