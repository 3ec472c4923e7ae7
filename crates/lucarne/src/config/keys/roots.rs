//! Sources of accepted roots.

use lucarne_ct::CcadbProgramme;
use lucarne_settings::form::{Shape, Words};
use lucarne_settings::section;

use super::SUNLIGHT;

section! {
    /// PEM file of accepted roots.
    #[beside(SUNLIGHT)]
    roots: Shape = Shape::Text, "none";

    /// Another PEM file of accepted roots. A log for Chrome needs Google's Merge Delay Monitor Root
    /// in it, [see below](#the-merge-delay-monitor-root), because CCADB does not list this root.
    #[beside(SUNLIGHT)]
    extraroots: Shape = Shape::Text, "none";

    /// `trusted`: the server authentication roots that a root programme includes or included.
    /// `testing`: also the roots of applicants.
    #[beside(SUNLIGHT)]
    ccadbroots: Words<CcadbProgramme> =
        Words(&[ ("trusted", CcadbProgramme::Trusted), ("testing", CcadbProgramme::Testing), ]),
        "`trusted` without `roots` or with `rootsurl`, else none";

    /// Location of the CCADB report: `https://`, `http://`, `file://`, or a path.
    rootsurl: Shape = Shape::Text, "CCADB's report";

    /// Roots that are not accepted from any source: a list of SHA-256 fingerprints (64 hexadecimal
    /// digits, colons allowed), and of files with one fingerprint per line (`#` begins a comment).
    refusedroots: Shape = Shape::List(&Shape::Text), "none";
}
