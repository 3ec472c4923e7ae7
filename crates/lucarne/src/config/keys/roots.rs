//! Sources of accepted roots.

use lucarne_ct::CcadbProgramme;
use lucarne_settings::form::{Shape, Words};
use lucarne_settings::{Key, Table};

use super::SUNLIGHT;

pub(crate) static TABLE: Table =
    Table::of(&[&ROOTS, &EXTRAROOTS, &CCADBROOTS, &ROOTSURL, &REFUSEDROOTS]);

pub(crate) static ROOTS: Key<Shape> =
    Key::new("roots", Shape::Text, "none", "PEM file of accepted roots.").beside(SUNLIGHT);

pub(crate) static EXTRAROOTS: Key<Shape> = Key::new(
    "extraroots",
    Shape::Text,
    "none",
    "Another PEM file of accepted roots. A log for Chrome needs Google's Merge Delay Monitor Root \
     in it, [see below](#the-merge-delay-monitor-root), because CCADB does not list this root.",
)
.beside(SUNLIGHT);

pub(crate) static CCADBROOTS: Key<Words<CcadbProgramme>> = Key::new(
    "ccadbroots",
    Words(&[
        ("trusted", CcadbProgramme::Trusted),
        ("testing", CcadbProgramme::Testing),
    ]),
    "`trusted` without `roots` or with `rootsurl`, else none",
    "`trusted`: the server authentication roots that a root programme includes or included. \
     `testing`: also the roots of applicants.",
)
.beside(SUNLIGHT);

pub(crate) static ROOTSURL: Key<Shape> = Key::new(
    "rootsurl",
    Shape::Text,
    "CCADB's report",
    "Location of the CCADB report: `https://`, `http://`, `file://`, or a path.",
);

pub(crate) static REFUSEDROOTS: Key<Shape> = Key::new(
    "refusedroots",
    Shape::List(&Shape::Text),
    "none",
    "Roots that are not accepted from any source: a list of SHA-256 fingerprints (64 hexadecimal \
     digits, colons allowed), and of files with one fingerprint per line (`#` begins a comment).",
);
