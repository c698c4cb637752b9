"""A view as HTML: one renderer for the self-contained file and for the page of `unslow serve`.

What the parts agree on, and `assets/page.js` relies on:

- Every panel is `<section class="panel" id="NAME-NUMBER">`; a fragment of the server replaces the element of its id.
- Sliders: `<form class="sliders" data-subject="N">`, in it one `<input type="range" name="KNOB" min="0" max="..."
  step="1" value="PLACE" data-values="[...]" data-labels="[...]">` (JSON lists, by place) with a `<label>` and an
  `<output>` for it, which says the label of the place.
- The answer of the sliders: `<div class="answer" id="answer-N">`; the fragment goes inside it, and its `.fits` is said
  to screen readers when the slider rests.
- A command: `<button class="copy" type="button" data-copy="TEXT">` beside its `<code>`.
- A form that asks: `<form data-ask="devices.html" data-into="ID">`; its answer goes into the element of that id.
- No style attribute and no event handler anywhere: the content security policy refuses both; shapes are SVG attributes.
- Text is escaped by `markup.tag`: a plain string is text, only `Markup` is HTML.
"""
