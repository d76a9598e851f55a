// SPDX-License-Identifier: 0BSD
//! Which words does the model hear in the clips of clips.rs? Its crate needs neither std nor a heap; printing does.

mod clips;

use std::process::ExitCode;

use kws::{quantize_input_0, Arena, Model, INPUT_0_SIZE, OUTPUT_0_SIZE};

/// The word that the model hears in a clip.
fn heard(model: &mut Model, features: &[i16; INPUT_0_SIZE]) -> &'static str {
    for (input, feature) in model.input_0().iter_mut().zip(features) {
        *input = quantize_input_0(f32::from(*feature) / clips::STEPS);
    }
    let labels: &[&str; OUTPUT_0_SIZE] = &clips::LABELS;
    match model.run() {
        Ok(()) => {
            // max_by_key would give the last of equal ones, and the other projects take the first.
            let output = model.output_0();
            let best = (0..OUTPUT_0_SIZE).rev().max_by_key(|&word| output[word]);
            best.map_or("nothing", |word| labels[word])
        }
        Err(_) => "nothing",
    }
}

fn main() -> ExitCode {
    let mut arena = Box::new(Arena::new());
    let mut model = Model::new(&mut arena);
    let mut wrong = 0;

    for (clip, (features, said)) in clips::FEATURES.iter().zip(clips::SAID).enumerate() {
        let word = heard(&mut model, features);
        let expected = clips::LABELS[said];
        if word == expected {
            println!("clip {}: {word}, as expected", clip + 1);
        } else {
            println!("clip {}: {word}, expected {expected}", clip + 1);
            wrong += 1;
        }
    }
    println!("{} clips as expected", if wrong == 0 { "all" } else { "NOT all" });
    ExitCode::from(wrong)
}
