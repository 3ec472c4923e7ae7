//! Keys under `observe`.

use lucarne_settings::form::Shape;
use lucarne_settings::{Key, Table};

pub(crate) static TABLE: Table = Table::of(&[&LOGLIST, &SUBMITTO, &SUBMITKEY]);

pub(crate) static LOGLIST: Key<Shape> = Key::new(
    "loglist",
    Shape::Text,
    "none",
    "log list (version 3 JSON) for the verification of SCTs: a file or a URL",
)
.beside("`--log-list`");

pub(crate) static SUBMITTO: Key<Shape> = Key::new(
    "submitto",
    Shape::List(&Shape::Text),
    "none",
    "submission prefix of a log that receives the chains that are in no log; a list: each chain \
     goes to the log with a matching temporal interval",
)
.beside("`--submit-to`");

pub(crate) static SUBMITKEY: Key<Shape> = Key::new(
    "submitkey",
    Shape::List(&Shape::Text),
    "from the log list",
    "public key (PEM) of that log; a list in the same order",
)
.beside("`--submit-key`");
