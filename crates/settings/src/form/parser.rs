//! Values that other code parses.

use std::fmt::Display;
use std::path::PathBuf;

use super::{Form, Parsed, Readable, Shape};
use crate::key::Key;
use crate::section::Reader;
use crate::values::ValueError;

/// A single value, and its parser.
pub struct One<T, E> {
    shape: Shape,
    parse: fn(&str) -> Result<T, E>,
    show: fn(&T) -> String,
}

impl<T, E> One<T, E> {
    /// Creates the form of texts that `parse` parses.
    pub const fn new(parse: fn(&str) -> Result<T, E>) -> Self {
        One {
            shape: Shape::Text,
            parse,
            show: |_| String::new(),
        }
    }

    /// Returns the form with this shape.
    pub const fn shaped(mut self, shape: Shape) -> Self {
        self.shape = shape;
        self
    }

    /// Returns the form with this function, which formats a value as Markdown.
    pub const fn shown(mut self, show: fn(&T) -> String) -> Self {
        self.show = show;
        self
    }
}

/// A list of texts, or a single text, and the parser of each.
pub struct Each<T, E>(pub fn(&str) -> Result<T, E>);

impl<T, E> Clone for One<T, E> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T, E> Copy for One<T, E> {}

impl<T: 'static, E: 'static> Form for One<T, E> {
    fn shape(&self) -> Shape {
        self.shape
    }
}

impl<T: 'static, E: Display + 'static> Parsed for One<T, E> {
    type Value = T;

    fn parse(&self, text: &str) -> Result<T, ValueError> {
        (self.parse)(text).map_err(|why| ValueError::Other(why.to_string()))
    }

    fn show(&self, value: &T) -> String {
        (self.show)(value)
    }
}

impl<T, E> Clone for Each<T, E> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T, E> Copy for Each<T, E> {}

impl<T: 'static, E: 'static> Form for Each<T, E> {
    fn shape(&self) -> Shape {
        Shape::List(&Shape::Text)
    }
}

impl<T: 'static, E: Display + 'static> Readable for Each<T, E> {
    type Read = Vec<T>;

    fn read(key: &Key<Self>, reader: &mut Reader<'_, '_>) -> Option<Vec<T>> {
        reader.has(key).then(|| reader.values(key, key.form.0))
    }

    fn show(&self, _: &Vec<T>) -> String {
        String::new()
    }
}

/// Path of a file or directory, relative to the directory of the configuration file.
#[derive(Clone, Copy, Debug)]
pub struct File;

/// List of paths of files or directories, or a single path.
#[derive(Clone, Copy, Debug)]
pub struct Files;

/// URL, or a path like those of [`File`].
#[derive(Clone, Copy, Debug)]
pub struct UrlOrFile;

/// Implements [`Readable`] with a method of [`Reader`].
macro_rules! readable {
    ($($form:ident: $shape:expr, $read:ty, |$reader:ident, $key:ident| $value:expr;)*) => {$(
        impl Form for $form {
            fn shape(&self) -> Shape {
                $shape
            }
        }

        impl Readable for $form {
            type Read = $read;

            fn read($key: &Key<Self>, $reader: &mut Reader<'_, '_>) -> Option<$read> {
                $value
            }

            fn show(&self, _: &$read) -> String {
                String::new()
            }
        }
    )*};
}

readable! {
    File: Shape::Text, PathBuf, |reader, key| Some(reader.path(key)?.value);
    Files: Shape::List(&Shape::Text), Vec<PathBuf>, |reader, key| {
        reader.has(key).then(|| reader.paths(key))
    };
    UrlOrFile: Shape::Text, String, |reader, key| Some(reader.url_or_path(key)?.value);
}
