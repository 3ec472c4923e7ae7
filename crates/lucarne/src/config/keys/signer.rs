//! Keys of a signer's file.

use lucarne_settings::form::Shape;
use lucarne_settings::{Key, Table};

pub(crate) static TABLE: Table = Table::of(&[&SOCKET, &USERS, &MEMORY, &LOGS]);

/// Keys of each log.
pub(crate) static LOG: Table =
    Table::of(&[&ORIGIN, &SECRET, &SEED, &MODULE, &TOKEN, &OBJECT, &PIN]).following();

pub(crate) static SOCKET: Key<Shape> = Key::new(
    "socket",
    Shape::Text,
    "required",
    "The Unix socket. Every user with access to its directory can connect. The kernel reports the \
     user of each connection.",
);

pub(crate) static USERS: Key<Shape> = Key::new(
    "users",
    Shape::List(&Shape::Text),
    "required",
    "The allowed users, by name (in `/etc/passwd`) or number.",
);

pub(crate) static MEMORY: Key<Shape> = Key::new(
    "memory",
    Shape::Text,
    "required",
    "Directory of the signer's memory: the last signed checkpoint of each log, in a file whose \
     name is the log ID. Only one signer can use it at a time. The signer does not start if all \
     users of the machine can write to the directory.",
);

pub(crate) static LOGS: Key<Shape> = Key::new(
    "logs",
    Shape::List(&Shape::Map(&LOG)),
    "required",
    "One entry for each log.",
);

pub(crate) static ORIGIN: Key<Shape> = Key::new(
    "origin",
    Shape::Text,
    "required",
    "The origin of the log: its submission prefix without the scheme and the last slash.",
);

pub(crate) static SECRET: Key<Shape> = Key::new(
    "secret",
    Shape::Secret,
    "this, or `module`",
    "The key, [as in the server's configuration](../reference/configuration.md#sources-of-keys).",
);

pub(crate) static SEED: Key<Shape> = Key::new(
    "seed",
    Shape::Secret,
    "–",
    "Sunlight's old name of `secret`.",
);

pub(crate) static MODULE: Key<Shape> = Key::new(
    "module",
    Shape::Text,
    "none",
    "Instead of `secret`: the PKCS #11 module of the [token](#keys-in-tokens) with the key.",
);

pub(crate) static TOKEN: Key<Shape> = Key::new(
    "token",
    Shape::Text,
    "required with `module`",
    "The label of the token.",
);

pub(crate) static OBJECT: Key<Shape> = Key::new(
    "object",
    Shape::Text,
    "required with `module`",
    "The label of the key's public and private objects.",
);

pub(crate) static PIN: Key<Shape> = Key::new(
    "pin",
    Shape::Secret,
    "required with `module`",
    "The PIN of the user: a file of one line, or another source, as in `secret`.",
);
