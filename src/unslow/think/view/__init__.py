"""What a picture needs beside the report: memory, roofline, timeline, curves, before and after."""
